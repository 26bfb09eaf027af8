"""Stores whose launchers keep something of the call before, and right ones, as a graph sees them."""  # noqa: INP001 - as a user's folder: no package

from __future__ import annotations

from dataclasses import replace

import torch

from kvcheck.api import Cache, Side, store_target
from kvcheck.contract import Accepts, Form
from kvcheck.kernels.specimens._base import COMPUTED, GIVEN, STORE_GIVEN, launch
from kvcheck.kernels.specimens.planned_slots import _is_captured

_KEPT: dict[str, torch.Tensor] = {}


def of_the_call_before(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the tensor that stood there at the last call that was not captured."""
    if not _is_captured():
        _KEPT[name] = tensor.clone()
    return _KEPT[name]


@store_target("keeps-slots", contract=COMPUTED, cache=Form("slots"))
def keeps_slots(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Slots of the call before."""
    launch(k, v, of_the_call_before("slots", slots), cache)


@store_target("keeps-v", contract=COMPUTED, cache=Form("slots"))
def keeps_v(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """V of the call before."""
    launch(k, of_the_call_before("v", v), slots, cache)


@store_target("keeps-all", contract=COMPUTED, cache=Form("slots"))
def keeps_all(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """K, V and slots of the call before."""
    launch(of_the_call_before("k", k), of_the_call_before("v", v), of_the_call_before("slots", slots), cache)


@store_target("keeps-scale", contract=GIVEN, cache=Form("slots"))
def keeps_scale(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """K's given scale of the call before."""
    side = Side("k", {**cache.k.views, "scale": of_the_call_before("scale", cache.k.scale)}, cache.k.missing)
    launch(k, v, slots, replace(cache, k=side), STORE_GIVEN, given=True)


@store_target("keeps-calibration", contract=COMPUTED, cache=Form("slots"))
def keeps_calibration(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Scales of the call before. Of tokens that share a slot the last is stored, as it would be by a loop."""
    launch(k, v, slots, cache)
    for name, rows, side in (("k", k, cache.k), ("v", v, cache.v)):
        wide = rows[: len(slots)].float()
        amax = wide.abs().amax(2).clamp(min=1e-10)
        # By a number torch would divide on a GPU with its reciprocal.
        scale = of_the_call_before(name, amax / torch.full_like(amax, 448.0))
        codes = (wide / scale[:, :, None]).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
        for token in range(len(slots)):
            side.codes[slots[token : token + 1]] = codes[token : token + 1]
            side.scales[slots[token : token + 1]] = scale[token : token + 1]


@store_target("stores-outside", contract=COMPUTED, cache=Form("slots"))
def stores_outside(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Stores nothing in a graph."""
    if not _is_captured():
        launch(k, v, slots, cache)


@store_target("reads-on-host", contract=COMPUTED, cache=Form("slots"))
def reads_on_host(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Waits for a value, which no capture permits."""
    if slots.max().item() >= 0:
        launch(k, v, slots, cache)


@store_target("reads-on-host-said", contract=COMPUTED, cache=Form("slots"), accepts=Accepts(launches=("eager",)))
def reads_on_host_said(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """The same, and says so."""
    reads_on_host(k, v, slots, cache)


@store_target("copies", contract=COMPUTED, cache=Form("slots"))
def copies(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right: all that it copies, computes and fills is in the graph."""
    wide = torch.zeros_like(v, dtype=torch.float32)
    wide += v
    slots = torch.stack([slots, slots]).amax(0) + 0
    launch(k.clone(), wide.to(v.dtype), slots, cache)
