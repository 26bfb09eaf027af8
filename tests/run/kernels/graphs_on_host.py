"""A right store that is no kernel: torch on the CPU."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import torch
from right import CONTRACT, store  # type: ignore[import-not-found] # beside this file, as a user's helper is

from kvcheck import Cache, Form, store_target


@store_target("on-host", contract=CONTRACT, cache=Form("slots"))
def on_host(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right where no two tokens share a slot, and as the last of them where they do."""
    store(k, v, slots, cache)
