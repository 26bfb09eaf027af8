"""Rows that are never stored: whole tokens, the end of each row, or of all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from judge.emulate import Memory, amax_scale, e4m3, store

from kvcheck.schema import Case

from .faulty import emitted, said

SMALL = Case(heads=3, head_dim=64)


def of_the_first(count: int) -> Callable[[Memory], None]:
    """A store of the first tokens alone."""

    def kernel(memory: Memory) -> None:
        before = [array.copy() for array in memory.arrays]
        store(memory)
        for slot in memory.slots.tolist()[count:]:
            for name in ("k_codes", "v_codes", "k_scales", "v_scales"):
                placed = memory.placement.get(name)
                after, memory.arrays[placed.allocation] = memory.arrays[placed.allocation], before[placed.allocation]
                row = memory.row(name, slot).copy()
                memory.arrays[placed.allocation] = after
                memory.write(name, slot, row)

    return kernel


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (7, "K's rows of the last token (7 of 8) are never stored"),
        (5, "K's rows of the last 3 of 8 tokens, from 5 on are never stored"),
        (0, "K's rows of all 8 tokens are never stored"),
    ],
)
def test_lost_tokens_are_counted(kept: int, words: str) -> None:
    """Which tokens: the last, those beyond a limit, all."""
    found = said(emitted(of_the_first(kept), SMALL))
    assert [(each.fault, each.tensor) for each in found] == [("token-lost", "k"), ("token-lost", "v")]
    assert found[0].says == words
    assert (found[0].others, found[0].of_others) == ((8 - kept) * 3 * 68, (8 - kept) * 3 * 136)


def test_a_lost_tail_is_no_lost_token() -> None:
    """The last elements of each head, or the last head of each token."""

    def without(last: slice, heads: slice) -> Callable[[Memory], None]:
        def kernel(memory: Memory) -> None:
            for tensor in ("k", "v"):
                x = memory.read(tensor)
                scale = amax_scale(x)
                codes = e4m3(x / scale[:, :, None])
                for token, slot in enumerate(memory.slots.tolist()):
                    row = memory.row(f"{tensor}_codes", slot).reshape(codes.shape[1:]).copy()
                    row[heads, last] = codes[token, heads, last]
                    memory.write(f"{tensor}_codes", slot, row)
                    memory.write(f"{tensor}_scales", slot, scale[token])

        return kernel

    (k, v) = said(emitted(without(slice(0, 63), slice(None)), SMALL))
    assert (k.fault, k.says) == ("tail-mask", "K's codes of element 63 of each head are never stored")
    assert (v.others, k.of_others) == (24, 48)
    (k, _) = said(emitted(without(slice(None), slice(0, 2)), SMALL))
    assert (k.fault, k.says) == ("tail-mask", "K's codes of head 2 of each token are never stored")


@pytest.mark.parametrize(
    ("block", "fault", "words"),
    [
        (700, "tail-mask", "K's codes of all rows from element 1400 on, counted over all tokens, are never stored"),
        (1000, "tail-mask", "K's codes of all rows from element 1000 on, counted over all tokens, are never stored"),
        (192, "token-lost", "K's codes of the last token (7 of 8) are never stored"),
    ],
)
def test_a_flat_grid_loses_the_end_of_all_rows(block: int, fault: str, words: str) -> None:
    """Programs take so many elements each, whatever rows they are in, and what fills none of them is left out."""

    def kernel(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x)
            codes = e4m3(x / scale[:, :, None])
            left = codes.size - 1 if block == 192 else codes.size
            stored = np.arange(codes.size).reshape(codes.shape) < left // block * block
            for token, slot in enumerate(memory.slots.tolist()):
                row = memory.row(f"{tensor}_codes", slot).reshape(codes.shape[1:])
                memory.write(f"{tensor}_codes", slot, np.where(stored[token], codes[token], row))
                memory.write(f"{tensor}_scales", slot, scale[token])

    found = said(emitted(kernel, SMALL))
    assert [(each.fault, each.tensor) for each in found] == [(fault, "k"), (fault, "v")]
    assert found[0].says == words


def test_tokens_that_are_not_stored_are_counted_as_well() -> None:
    """Elements are counted over all tokens, as the grid does that leaves the last ones out."""

    def kernel(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x)
            codes = e4m3(x / scale[:, :, None])
            stored = np.arange(codes.size).reshape(codes.shape) < codes.size - 50
            for token, slot in enumerate(memory.slots.tolist()):
                if slot >= 0:
                    row = memory.row(f"{tensor}_codes", slot).reshape(codes.shape[1:])
                    memory.write(f"{tensor}_codes", slot, np.where(stored[token], codes[token], row))
                    memory.write(f"{tensor}_scales", slot, scale[token])

    emission = emitted(kernel, Case(heads=3, head_dim=64, tokens=5, slots="negative_mixed"))
    (first, *_) = said(emission)
    begin = 5 * 3 * 64 - 50
    assert first.says == f"K's codes of all rows from element {begin} on, counted over all tokens, are never stored"
