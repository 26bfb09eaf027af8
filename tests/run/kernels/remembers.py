"""Stores that are right in a process of one case, and keep something of the first case for all later ones."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import os

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache

strides: list[tuple[int, ...]] = []
scales: dict[tuple[int, ...], torch.Tensor] = {}
shapes: list[tuple[int, ...]] = []


@kvcheck.store_target("first-strides", contract=right.CONTRACT)
def first_strides(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Read every V with the first one's strides."""
    strides.append(v.stride())
    right.store(k, v.as_strided(v.shape, strides[0]), slots, cache)


@kvcheck.store_target("first-scales", contract=right.CONTRACT)
def first_scales(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Keep V's scales by its shape."""
    right.store(k, v, slots, cache)
    kept = scales.setdefault(tuple(v.shape), cache.v.scales[slots].clone())
    cache.v.scales[slots] = kept


@kvcheck.store_target("first-shape", contract=right.CONTRACT)
def first_shape(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Die of a shape that is not the first one's."""
    shapes.append(tuple(k.shape))
    if shapes[-1] != shapes[0]:
        os._exit(3)
    right.store(k, v, slots, cache)


@kvcheck.store_target("nothing-kept", contract=right.CONTRACT)
def nothing_kept(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Raise where there are two tokens, and store all else."""
    if len(k) == 2:
        raise ValueError("not two")
    right.store(k, v, slots, cache)
