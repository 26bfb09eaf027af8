"""kvcheck's store with Triton's own cast to e4m3fn in place of the encoder: what an arch's compiler makes of it.

All else is the store's, and so is the contract. Its codes are right where the compiler casts in one step; where it
rounds to fp16 first, scaled values that are no fp16 number may be a step too small.
"""

from __future__ import annotations

import torch

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.store import CONTRACT, launch


@store_target("native-cast", contract=CONTRACT, cache=Form("slots", codes="uint8"))
def native_cast(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """The store with `.to(tl.float8e4nv)`. The codes are plain bytes: no kernel is handed an 8-bit float."""
    launch(k, v, slots, cache, native_cast=True)
