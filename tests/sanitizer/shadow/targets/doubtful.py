"""Targets of which shadow memory cannot see everything."""  # noqa: INP001 - as a user's folder: no package

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ARG001, N803 - a Triton kernel's parameters are the compiler's

from __future__ import annotations

import os

import torch
import triton
import triton.language as tl

from kvcheck import Cache, Computed, Contract, store_target
from kvcheck.kernels.store import launch

CONTRACT = Contract(scale=Computed("token_head", maximum=448.0, eps=1e-10, derive="divide"), apply="divide")


@triton.jit
def past_the_end(source, count, SIZE: tl.constexpr):
    """Read behind a tensor, then fail."""
    tl.load(source + count + tl.arange(0, SIZE))  # past
    tl.static_assert(SIZE < 0, "a kernel's own assertion")


@store_target("by-torch", contract=CONTRACT)
def by_torch(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """The right store, and a byte of another slot by torch."""
    launch(k, v, slots, cache)
    cache.k.codes[-1, 0, 0] ^= 1


@store_target("fails", contract=CONTRACT)
def fails(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A kernel that raises, after it has read what it must not."""
    past_the_end[(1,)](v, v.numel(), SIZE=8)


@store_target("leaves", contract=CONTRACT)
def leaves(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """The process ends before anything can be said."""
    os._exit(3)
