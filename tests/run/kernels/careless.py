"""Stores with one fault each that no code shows, and one that copies its cache."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import dataclasses

import right  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

import kvcheck
from kvcheck import Cache
from kvcheck.api import Side

launches = 0


def _cloned(side: Side) -> Side:
    return dataclasses.replace(side, views={name: view.clone() for name, view in side.views.items()})


@kvcheck.store_target("clones-cache", contract=right.CONTRACT)
def clones_cache(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store into a copy of the cache: every token is lost."""
    right.store(k, v, slots, dataclasses.replace(cache, k=_cloned(cache.k), v=_cloned(cache.v)))


@kvcheck.store_target("reads-behind-v", contract=right.CONTRACT)
def reads_behind_v(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Move the scales by a legal ulp where the element behind V is large."""
    behind = v.as_strided((1,), (1,), v.storage_offset() + v.numel()).float().abs()
    right.store(k, v, slots, cache, nudge=int(behind.item() > 8 * v.float().abs().max().item()))


@kvcheck.store_target("reads-cache", contract=right.CONTRACT)
def reads_cache(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Move each scale by a legal ulp where the code that stood in the cache is odd."""
    right.store(k, v, slots, cache, nudge=(cache.k.codes[slots][:, :, 0] & 1).to(torch.int32))


@kvcheck.store_target("rolls-dice", contract=right.CONTRACT)
def rolls_dice(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Move the scales by a legal ulp or not, another way in every launch but the first two."""
    global launches  # noqa: PLW0603 - counts the launches of this process
    launches += 1
    right.store(k, v, slots, cache, nudge=int(launches >= 3))


@kvcheck.store_target("mutates-input", contract=right.CONTRACT)
def mutates_input(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store, then scale K in place."""
    right.store(k, v, slots, cache)
    k.mul_(2)


@kvcheck.store_target("refuses-late", contract=right.CONTRACT)
def refuses_late(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:  # noqa: ARG001 - the interface
    """Change one byte that stood in the cache, then refuse."""
    cache.k.codes[0, 0, 0] ^= 1
    raise kvcheck.Refused("too late")


@kvcheck.store_target("refuses-all", contract=right.CONTRACT)
def refuses_all(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:  # noqa: ARG001 - the interface
    """Refuse everything."""
    raise kvcheck.Refused("none of it")


@kvcheck.store_target("right", contract=right.CONTRACT)
def right_store(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store, and no more."""
    right.store(k, v, slots, cache)


@kvcheck.store_target("legal", contract=right.CONTRACT)
def legal(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store with scales one ulp off, which the contract allows."""
    right.store(k, v, slots, cache, nudge=1)
