"""Table A: the distance between rows, taken from the wrong place."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import skeleton  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

from kvcheck import Cache, store_target


@store_target("a1-one-pitch", contract=skeleton.COMPUTED)
def one_pitch(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row A1: one source pitch, K's, for both tensors."""
    skeleton.store(k, v, slots, cache, strides=(k.stride(), (k.stride(0), *v.stride()[1:])))


@store_target("a15-row-width", contract=skeleton.COMPUTED)
def row_width(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row A15: rows taken to be as far apart as they are wide."""
    k_strides, v_strides = ((rows.shape[1] * rows.shape[2], *rows.stride()[1:]) for rows in (k, v))
    skeleton.store(k, v, slots, cache, strides=(k_strides, v_strides))


@store_target("a16-stride-zero", contract=skeleton.COMPUTED)
def stride_zero(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Row A16: a stride of 0, as expand() gives, read as "none given"."""
    k_strides, v_strides = ((rows.stride(0) or rows.shape[1] * rows.shape[2], *rows.stride()[1:]) for rows in (k, v))
    skeleton.store(k, v, slots, cache, strides=(k_strides, v_strides))
