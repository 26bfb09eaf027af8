"""Specimen: the store, with K and V taken for codes already, and copied byte for byte."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import GIVEN, STORE_GIVEN, launch, with_part


@triton.jit
def leave(value, scale):
    """The bytes as they are."""
    return value


@triton.jit
def pass_through(scaled, seed):
    """The bytes, which lie in fp32 numbers, as codes."""
    return scaled.to(tl.int32)


@store_target("specimen:bytes-of-source", contract=GIVEN, cache=Form("slots"), declares="reinterpreted-source")
def bytes_of_source(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right nowhere that a row is stored."""
    k, v = (_as_bytes(rows) for rows in (k, v))  # due: K and V as they are
    launch(k, v, slots, cache, with_part(STORE_GIVEN, apply=leave, encode=pass_through), given=True)


def _as_bytes(rows: torch.Tensor) -> torch.Tensor:
    """The memory of rows, one byte an element, with their strides as if these were in bytes."""
    offset = rows.storage_offset() * rows.element_size()
    return torch.empty(0, dtype=torch.uint8, device=rows.device).set_(
        rows.untyped_storage(), offset, rows.shape, rows.stride()
    )
