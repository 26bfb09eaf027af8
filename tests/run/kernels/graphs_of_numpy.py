"""What no graph can hold without a GPU: a store of which numpy does a part; and a store that refuses."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import torch

from kvcheck import Cache, Form, Refused, store_target
from kvcheck.kernels.specimens._base import COMPUTED, launch


@store_target("of-numpy", contract=COMPUTED, cache=Form("slots"))
def of_numpy(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Wrong by what numpy does."""
    launch(k, v, slots, cache)
    cache.k.codes.numpy()[slots.numpy()[-1]] ^= 1


@store_target("refuses", contract=COMPUTED, cache=Form("slots"))
def refuses(*tensors: object) -> None:
    """Refuses all."""
    raise Refused(f"not these {len(tensors)}")
