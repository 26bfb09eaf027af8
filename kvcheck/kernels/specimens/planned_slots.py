"""Specimen: the store, with slots copied by every call but one that is captured in a graph."""

from __future__ import annotations

import torch

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.specimens._base import COMPUTED, launch

_PLAN: dict[str, torch.Tensor] = {}


def _is_captured() -> bool:
    """Whether a graph is being captured. A torch without CUDA does not know, and raises."""
    try:
        return torch.cuda.is_current_stream_capturing()
    except RuntimeError:
        return False


@store_target("specimen:planned-slots", contract=COMPUTED, cache=Form("slots"), declares="graph-stale")
def planned_slots(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever it is called. A replay of a graph has the slots of the call before the capture."""
    if not _is_captured():
        _PLAN["slots"] = slots.clone()  # due: in the graph, too
    launch(k, v, _PLAN["slots"], cache)
