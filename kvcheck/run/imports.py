"""Imports without Python's collector: what torch and Triton make as they are imported stays, and it looks in vain."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: Objects after which it looks. An import makes fewer, and no one else would set this number.
_NEVER = 987_654_321


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold the collector off. What an import in the block asks of it stands behind the block."""
    before = gc.get_threshold()
    gc.set_threshold(_NEVER, *before[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == _NEVER:
            gc.set_threshold(*before)
