"""A right kernel for each contract and form of a specimen that is not `store`'s: made of the specimens' own parts.

    kvcheck matrix default --target tests/evidence/right_kernels.py

What they leave is what the specimens must leave wherever their faults do not show.
"""

from __future__ import annotations

import torch

from kvcheck import Cache, Form, store_target
from kvcheck.kernels.specimens._base import COMPUTED, GIVEN, STORE_GIVEN, launch

PAGES, HEADS_PAGES = Form("pages", page=4), Form("heads_pages", page=4)


@store_target("right-given", contract=GIVEN, cache=Form("slots"))
def right_given(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A scale that is given for each tensor."""
    launch(k, v, slots, cache, STORE_GIVEN, given=True)


@store_target("right-pages", contract=COMPUTED, cache=PAGES)
def right_pages(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Pages of rows."""
    launch(k, v, slots, cache, form=PAGES)


@store_target("right-heads-pages", contract=COMPUTED, cache=HEADS_PAGES)
def right_heads_pages(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Pages of heads."""
    launch(k, v, slots, cache, form=HEADS_PAGES)
