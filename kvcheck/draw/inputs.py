"""The logical inputs of a case: what K, V, slots and given scales hold, whatever their views and layouts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from kvcheck.contract import Contract, Given, LoadContract
from kvcheck.draw import dtypes, scales, slots, values
from kvcheck.schema import Case, Tensor
from kvcheck.views import repeats

Bits = npt.NDArray[np.unsignedinteger]
Floats = npt.NDArray[np.float32]
Slots = npt.NDArray[np.int64]

#: Rows a page has for slot patterns that go by pages, where the form has no pages.
PLAIN_PAGE = 16

#: What is added to the seed of a tensor that is redrawn: no matrix has such seeds.
REDRAW = 1 << 63

#: What is added to the seed of the rows that K and V have beyond the slots.
EXTRA = 1 << 64


@dataclass(frozen=True)
class Inputs:
    """What a case hands its target; the arrays are read-only.

    Storage bits and exact fp32 values of K `[rows, heads, head_dim]` and V, slot ids `[tokens]`, given scales.

    The first `tokens` rows are those that the slots name.
    """

    k: Bits
    v: Bits
    k_float: Floats
    v_float: Floats
    slots: Slots
    k_scale: Floats | None
    v_scale: Floats | None


def slot_page(page: int) -> int:
    """The page that slot patterns go by, for a cache whose pages have `page` rows."""
    return page if page > 1 else PLAIN_PAGE


@lru_cache(maxsize=2)
def logical(
    case: Case, contract: Contract | LoadContract, slot_count: int, page: int, redrawn: Tensor | None = None
) -> Inputs:
    """The inputs of a case for a cache of `slot_count` rows in pages of `page`.

    `redrawn` K or V has other values of the same kind, and all else is the same. Kept, since whoever runs, judges or
    diagnoses a case asks for them again and again.
    """
    k = _rows(case, "k", case.seed + (REDRAW if redrawn == "k" else 0))
    v = _rows(case, "v", case.seed + (REDRAW if redrawn == "v" else 0))
    ids = slots.slot_ids(case.slots, case.tokens, slot_count, slot_page(page), case.seed)
    k_scale, v_scale = _given(case, contract)
    k_float, v_float = dtypes.to_float32(k, case.dtype), dtypes.to_float32(v, case.dtype)
    for array in (k, v, k_float, v_float, ids, k_scale, v_scale):
        if array is not None:
            array.setflags(write=False)
    return Inputs(k, v, k_float, v_float, ids, k_scale, v_scale)


def given_rule(contract: Contract | LoadContract) -> Given | None:
    """How the scale is given, where it is: a load contract's tensor or head scales are fp32, K's and V's unlike."""
    if isinstance(contract, LoadContract):
        return Given(contract.scale) if contract.scale in ("tensor", "head") else None
    return contract.scale if isinstance(contract.scale, Given) else None


def amax(floats: Floats) -> float:
    """The largest finite magnitude; zero where there is none."""
    finite = np.abs(floats[np.isfinite(floats)])
    return float(finite.max()) if finite.size else 0.0


def addressed(ids: Slots) -> npt.NDArray[np.bool_]:
    """Which tokens a kernel must store or load: all but those with negative slots.

    A contract that does not skip those never gets a case that has them.
    """
    return ids >= 0


def _rows(case: Case, role: Tensor, seed: int) -> Bits:
    view = case.k_view if role == "k" else case.v_view
    kind = case.k_values if role == "k" else case.v_values
    dim = case.head_dim if role == "k" else case.dim_v
    bits = values.bits(kind, case.dtype, (case.tokens, case.heads, dim), role, seed)
    if case.extra_tokens:  # drawn apart, so that the rows to be stored are those of the case without them
        extra = values.bits(kind, case.dtype, (case.extra_tokens, case.heads, dim), role, seed + EXTRA)
        bits = np.concatenate([bits, extra])
    if repeats(view) and case.rows:
        return np.ascontiguousarray(np.broadcast_to(bits[:1], bits.shape))
    return bits


def _given(case: Case, contract: Contract | LoadContract) -> tuple[Floats | None, Floats | None]:
    rule = given_rule(contract)
    if rule is None:
        return None, None
    k = _kept(scales.given(case.k_scale, rule.granularity, case.heads), rule)
    if rule.shared:
        return k, k
    v = _kept(scales.given(case.v_scale, rule.granularity, case.heads), rule)
    # K's and V's scale differ unless shared: equal ones would hide a swap.
    return k, v * np.float32(0.5) if np.array_equal(k, v) else v


def _kept(scale: Floats, rule: Given) -> Floats:
    """What the scale's own dtype keeps of it, as fp32: all that the kernel is handed."""
    return scale if rule.dtype == "fp32" else dtypes.to_float32(dtypes.from_float32(scale, rule.dtype), rule.dtype)
