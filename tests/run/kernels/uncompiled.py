"""A right kernel for the interpreter that no compiler takes."""  # noqa: INP001 - as a user's folder: no package
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck import Cache, Contract, Form, store_target
from kvcheck.kernels.encode import encode_e4m3fn


@triton.jit
def store_row(source, codes, slots, token, head, code_slot, code_head):  # noqa: ANN001, ANN201, D103
    at = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + at).to(tl.int64)
    # One name for an integer and a float: Python has no types to mismatch, a compiler has.
    if slot > 1:  # noqa: SIM108 - the two branches are the fault
        one = 1
    else:
        one = 1.0  # type: ignore[assignment]
    dim = tl.arange(0, 128)
    for part in range(3):
        value = tl.load(source + at * token + part * head + dim).to(tl.float32) * one
        tl.store(codes + slot * code_slot + part * code_head + dim, encode_e4m3fn(value).to(tl.uint8))


@store_target("uncompiled", contract=Contract(scale=None), cache=Form("slots", scales="none"))
def uncompiled(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Rows of 3 heads of 128 elements."""
    for source, side in ((k, cache.k), (v, cache.v)):
        codes = side.codes
        store_row[(len(slots),)](
            source, codes, slots, source.stride(0), source.stride(1), codes.stride(0), codes.stride(1)
        )
