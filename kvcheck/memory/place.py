"""Placement: a case's tensors and everything around them, as bytes of allocations. Pure arithmetic, no memory."""

from __future__ import annotations

from kvcheck.contract import Accepts, Contract, Form, LoadContract
from kvcheck.draw.inputs import logical
from kvcheck.draw.slots import slot_count
from kvcheck.draw.visibility import independence_reason
from kvcheck.memory.blocks import blocks_of
from kvcheck.memory.fences import FENCES, missing
from kvcheck.memory.forms import Unplaceable, pages_of
from kvcheck.memory.layouts import Laid, layout
from kvcheck.schema import Case, Placement


def place(case: Case, contract: Contract | LoadContract, form: Form, accepts: Accepts, *, cuda: bool) -> Placement:
    """Lay a case out in memory for a target. Raises Unplaceable, with a sentence, where that cannot be done.

    `cuda` matters to `pooled` alone: there the real caching allocator decides, so each block is its own allocation.
    """
    page, slots, laid = _laid(case, contract, form, accepts, cuda=cuda)
    reason = "" if case.layout == "arena" else f"layout {case.layout} has no poison"
    reason = reason or independence_reason(case, contract, logical(case, contract, slots, page))
    return Placement(case.layout, laid.allocations, laid.tensors, laid.regions, slots, not reason, reason)


def allocated(case: Case, contract: Contract | LoadContract, form: Form, accepts: Accepts, *, cuda: bool) -> int:
    """The bytes of all allocations of a case, without drawing what stands there. Raises Unplaceable as `place` does."""
    return sum(_laid(case, contract, form, accepts, cuda=cuda)[2].allocations)


def _laid(
    case: Case, contract: Contract | LoadContract, form: Form, accepts: Accepts, *, cuda: bool
) -> tuple[int, int, Laid]:
    """The slots of a page, the slots of the cache, and where every tensor lies."""
    page, counted = pages_of(case, form)
    slots = slot_count(case.tokens, counted)
    lay = layout(case.layout, cuda=cuda)
    if lay is None:
        raise Unplaceable(f"layout {case.layout!r} is not one that kvcheck lays out")
    laid = lay(blocks_of(case, contract, form, accepts, slots))
    absent = missing() if cuda and case.layout in FENCES else None
    if absent is not None:
        raise Unplaceable(absent)
    return page, slots, laid
