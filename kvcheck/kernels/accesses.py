"""The kernel that shadow memory tests itself with: an access a line, and in a comment what is wrong with it."""

from __future__ import annotations

import triton.language as tl


def probe(k, v, k_codes, v_codes, SIZE: tl.constexpr):
    """One program over K and V `[2, 1, SIZE]`, K's rows 2 * SIZE apart and V behind them, and codes `[2, 1, SIZE]`."""
    lane = tl.arange(0, SIZE)
    row = tl.load(k + lane)  # right
    part = tl.load(k + lane * 1000, mask=lane < 1, other=7.0)  # right
    past = tl.load(v + 2 * SIZE + lane)  # out-of-bounds
    far = tl.load(k + (1 << 44) + lane, mask=lane < SIZE, other=7.0)  # out-of-bounds
    below = tl.load(v - 1 - lane)  # foreign
    between = tl.load(k + SIZE + lane)  # gap
    unset = tl.load(k_codes + lane)  # uninitialised
    tl.store(k_codes + lane, lane.to(tl.uint8))  # right
    mended = tl.load(k_codes + lane)  # right
    tl.store(v_codes + SIZE + lane, lane.to(tl.uint8))  # stray
    tl.store(v + lane, row + past + far + below + between)  # stray
    tl.atomic_add(v_codes.to(tl.pointer_type(tl.int32)) + (1 << 40), 1)  # out-of-bounds
    kept = row + 0 * (part + far + unset.to(tl.float32) + mended.to(tl.float32))
    tl.store(v_codes + lane, (kept + part + far).to(tl.uint8))  # right
