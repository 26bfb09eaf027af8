"""A right store in plain torch, for targets that misbehave in some other way. It runs on the CPU alone."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

import torch

from kvcheck import Cache, Computed, Contract

#: Two ulps of leeway on the scale: room for a target to be legal, and still not what it should be.
CONTRACT = Contract(scale=Computed("token_head", maximum=448.0, eps=1e-10, derive="divide_approx"), apply="divide")


def store(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache, nudge: int | torch.Tensor = 0) -> None:
    """Store every token, with scales `nudge` ulps above the right ones and codes that fit them."""
    for rows, side in ((k, cache.k), (v, cache.v)):
        wide = rows.float()
        amax = wide.abs().amax(dim=2).clamp(min=1e-10)
        scale = ((amax / torch.full_like(amax, 448.0)).view(torch.int32) + nudge).view(torch.float32)
        codes = (wide / scale[:, :, None]).to(torch.float8_e4m3fn).view(torch.uint8)
        side.codes[slots] = codes
        side.scales[slots] = scale
