"""Prefill: what stands in caches, scales, outputs and their guards before a launch.

Random bytes, so that nothing a kernel stores looks like them, from three streams that differ from each other in
every byte. A byte that equals its prefill after all three launches was therefore never stored.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from kvcheck.draw.counter import raw_bytes
from kvcheck.schema import Prefill

Bytes = npt.NDArray[np.uint8]

#: Bytes of a draw that is kept: B and C are made of what A is, and a small case draws for each launch anew.
_SMALL = 1 << 16


def prefill(allocation: int, seed: int, letter: Prefill, start: int, stop: int) -> Bytes:
    """The prefill of bytes `start` to `stop` of an allocation: uint8 `[stop - start]`, not to be written to.

    B is A plus 1 to 127, C is A plus 128 to 255, modulo 256: no two of them are ever equal.
    """
    drawn = _kept if stop - start <= _SMALL else _drawn
    base = drawn("prefill", allocation, seed, start, stop)
    if letter == "A":
        return base
    step = drawn("prefill-step", allocation, seed, start, stop)
    least, count = (1, 127) if letter == "B" else (128, 128)
    made: Bytes = base + (np.uint8(least) + step % np.uint8(count))
    return made


def _drawn(stream: str, allocation: int, seed: int, start: int, stop: int) -> Bytes:
    """Those bytes of a stream, read-only."""
    found = raw_bytes((stream, allocation, seed), start, stop)
    found.setflags(write=False)
    return found


_kept = lru_cache(maxsize=64)(_drawn)


def prefill_at(allocation: int, seed: int, letter: Prefill, offsets: npt.NDArray[np.int64]) -> Bytes:
    """The prefill's bytes at `offsets` of an allocation: uint8, shaped like `offsets`."""
    if offsets.size == 0:
        return np.zeros(offsets.shape, np.uint8)
    start, stop = int(offsets.min()), int(offsets.max()) + 1
    return prefill(allocation, seed, letter, start, stop)[offsets - start]
