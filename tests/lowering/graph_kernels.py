# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, N803 - a kernel's parameters are the compiler's
"""A kernel for graphs."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def twice(source, into, count, BLOCK: tl.constexpr):
    """Store twice of each element."""
    at = tl.arange(0, BLOCK)
    tl.store(into + at, 2 * tl.load(source + at, mask=at < count), mask=at < count)
