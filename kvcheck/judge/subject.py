"""What an emission is judged against: the tokens that are stored, and their right scales and codes.

Everything here follows from the case and the contract alone, so it is computed once for all launches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kvcheck.contract import Computed, Contract
from kvcheck.draw import dtypes
from kvcheck.draw.inputs import Inputs, addressed
from kvcheck.formats.arithmetic import apply_scale, element_scales, right_codes, right_scales
from kvcheck.schema import Case, Emission, Placed, Placement, Tensor

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

TENSORS: tuple[Tensor, Tensor] = ("k", "v")


@dataclass(frozen=True)
class Rows:
    """The rows that a kernel must store: `tokens` and `slots` `[n]`, in token order.

    Tokens may share a slot. `judged` `[u]` are the positions in `tokens` of each slot's first token: a slot's bytes
    are judged once, however many tokens name it. `shared` `[u]` says which of these more than one token names.
    """

    tokens: Indices
    slots: Indices
    judged: Indices
    shared: Mask

    def sharing(self, row: int) -> Indices:
        """The positions in `tokens` of all tokens whose slot is that of judged row `row`."""
        order, ids = self._by_slot
        slot = self.slots[self.judged[row]]
        return order[np.searchsorted(ids, slot) : np.searchsorted(ids, slot, side="right")]

    @cached_property
    def _by_slot(self) -> tuple[Indices, Indices]:
        """The positions in `tokens` in the order of their slots, and these slots."""
        order = np.argsort(self.slots, kind="stable").astype(np.int64)
        return order, self.slots[order]


@dataclass(frozen=True)
class Side:
    """K or V of every token in `Rows.tokens`: what its kernel read, and what it should have stored.

    `x` fp32 `[n, heads, dim]`; `scale` fp32, the right one: computed `[n, *groups]`, given `[1]` or `[heads]`, a one
    where the contract has none; `codes` uint8 `[n, heads, dim]` under it; `undefined` marks codes that the contract
    leaves open. `scales` is where computed scales are stored, None where nothing is.
    """

    tensor: Tensor
    contract: Contract
    placed: Placed
    scales: Placed | None
    x: Floats
    scale: Floats
    codes: Bytes
    undefined: Mask


@dataclass(frozen=True)
class Subject:
    """A case made ready to judge: its rows, and K's and V's right bytes."""

    case: Case
    contract: Contract
    placement: Placement
    rows: Rows
    sides: tuple[Side, Side]


def subject(emission: Emission, contract: Contract, inputs: Inputs) -> Subject:
    """The right bytes of an emission's case. `contract` is the emission's, known to be supported."""
    rows = stored_rows(inputs.slots, addressed(inputs.slots))
    k, v = (_side(tensor, emission.placement, contract, inputs, rows) for tensor in TENSORS)
    return Subject(emission.case, contract, emission.placement, rows, (k, v))


def stored_rows(ids: Indices, stored: Mask) -> Rows:
    """The rows of the tokens that `stored` marks; `ids` are all tokens' slots. Both are `[tokens]`."""
    tokens = np.flatnonzero(stored).astype(np.int64)
    slots = ids[tokens]
    _, first, count = np.unique(slots, return_index=True, return_counts=True)
    order = np.argsort(first)
    return Rows(tokens, slots, first[order].astype(np.int64), count[order] > 1)


def spread(contract: Contract, scale: Floats, shape: tuple[int, ...]) -> Floats:
    """A scale as `Side` holds it, as the scale of every element of `shape` `[rows, heads, dim]`."""
    return np.broadcast_to(scale, shape) if contract.scale is None else element_scales(contract, scale, shape)


def undefined_codes(contract: Contract, x: Floats, scale: Floats) -> Mask:
    """Which codes the contract leaves open: those of a scaled NaN, where it says `nan="undefined"`.

    A NaN that the arithmetic makes (a row of infinities, a NaN scale) is as undefined as one in the data.
    `x` and `scale` are `[rows, heads, dim]`.
    """
    if contract.nan != "undefined":
        return np.zeros(x.shape, np.bool_)
    return np.isnan(apply_scale(contract, x, scale))


def _side(tensor: Tensor, placement: Placement, contract: Contract, inputs: Inputs, rows: Rows) -> Side:
    placed = placement.get(f"{tensor}_codes")
    scales = placement.find(f"{tensor}_scales") if isinstance(contract.scale, Computed) else None
    floats, given = (inputs.k_float, inputs.k_scale) if tensor == "k" else (inputs.v_float, inputs.v_scale)
    x = floats[rows.tokens]
    scale = _right_scale(contract, x, given)
    elements = spread(contract, scale, x.shape)
    codes = right_codes(contract, x, elements)
    return Side(tensor, contract, placed, scales, x, scale, codes, undefined_codes(contract, x, elements))


def _right_scale(contract: Contract, x: Floats, given: Floats | None) -> Floats:
    """The right scales of rows `x`, as `Side` holds them. A given one is what its own dtype keeps of it."""
    rule = contract.scale
    if rule is None:
        return np.ones(1, np.float32)
    if isinstance(rule, Computed):
        scale = right_scales(rule, x)
        return scale[:, None] if scale.ndim == 1 else scale
    assert given is not None
    return given if rule.dtype == "fp32" else dtypes.to_float32(dtypes.from_float32(given, rule.dtype), rule.dtype)
