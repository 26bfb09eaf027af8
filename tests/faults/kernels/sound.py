"""The skeleton without a fault, under each contract of the faulty kernels: it must not be condemned."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import skeleton  # type: ignore[import-not-found] # beside this file, as a user's helper is
import torch

from kvcheck import Cache, store_target


@store_target("sound", contract=skeleton.COMPUTED)
def sound(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A scale a token and head."""
    skeleton.store(k, v, slots, cache)


@store_target("sound-given", contract=skeleton.GIVEN)
def sound_given(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A static scale."""
    skeleton.store(k, v, slots, cache, skeleton.SOUND_GIVEN, given=True)


@store_target("sound-token", contract=skeleton.TOKEN)
def sound_token(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """One scale a token."""
    skeleton.store(k, v, slots, cache, skeleton.SOUND_TOKEN)


@store_target("sound-e8m0", contract=skeleton.E8M0)
def sound_e8m0(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A power of two a token and head, kept as its exponent."""
    skeleton.store(k, v, slots, cache, skeleton.SOUND_E8M0)
