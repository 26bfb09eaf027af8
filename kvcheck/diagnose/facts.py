"""The right and the emitted bytes of launch 1, as faults need them.

Slots that tokens share are left out: which token's row stands there is the judge's question, not a fault's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvcheck.contract import Computed, Contract, Given
from kvcheck.diagnose.image import SourceMemory
from kvcheck.draw import dtypes
from kvcheck.draw.image import case_inputs
from kvcheck.draw.inputs import addressed
from kvcheck.emission import LAUNCHES, Step
from kvcheck.formats.arithmetic import (
    apply_scale,
    code_bounds,
    element_scales,
    legal_scales,
    right_codes,
    right_scales,
)
from kvcheck.schema import ITEMSIZE, Emission, Placed, Tensor, Verdict

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

TENSORS: tuple[Tensor, Tensor] = ("k", "v")


@dataclass(frozen=True)
class Stored:
    """What a kernel stores for K or V: `codes` uint8 `[n, heads, dim]`, `scale` fp32 `[n, *groups]`.

    `scale` is None where none is stored.
    """

    codes: Bytes
    scale: Floats | None


@dataclass(frozen=True)
class Agreement:
    """Which stored bytes a kernel may leave that read given rows: `codes` `[n, heads, dim]`, `scales` `[n, *groups]`.

    Exact or legal by the contract, or left open by it: `undefined` `[n, heads, dim]`. `scales` is None where none are
    stored.
    """

    codes: Mask
    scales: Mask | None
    undefined: Mask


class Facts:
    """One emission, with everything that more than one fault asks for, computed when first asked for."""

    def __init__(self, emission: Emission, contract: Contract, verdict: Verdict) -> None:
        """`contract` is the emission's, and one that `is_supported`; `verdict` is what the judge says of it."""
        self.emission = emission
        self.contract = contract
        self.verdict = verdict
        self._step = LAUNCHES[0]
        self._memories: dict[Step, SourceMemory] = {}
        self._inputs = case_inputs(emission.placement, emission.case, contract)
        self._values: dict[Tensor, Floats] = {"k": self._inputs.k_float, "v": self._inputs.v_float}
        self._right: dict[Tensor, Agreement] = {}
        slots = self._inputs.slots
        self.stored_tokens: Indices = np.flatnonzero(addressed(slots))
        """The tokens that are stored, those that share a slot included."""
        self.slots: Indices = slots[self.stored_tokens]
        """Their slots."""
        _, which, count = np.unique(self.slots, return_inverse=True, return_counts=True)
        self._rows: Indices = np.flatnonzero(count[which] == 1)
        self.tokens: Indices = self.stored_tokens[self._rows]
        """The tokens whose rows are compared."""

    @property
    def memory(self) -> SourceMemory:
        """Memory before launch 1; of those that `launches` gives, before theirs. Made once for all that are copies."""
        if self._step not in self._memories:
            self._memories[self._step] = SourceMemory.of(self.emission, *self._step)
        return self._memories[self._step]

    def standing(self) -> Facts:
        """The same with the rows that stand in the end: of tokens that share a slot, the last one's."""
        other = copy.copy(self)
        _, first = np.unique(self.slots[::-1], return_index=True)
        other._rows = np.sort(len(self.slots) - 1 - first)  # noqa: SLF001 - a copy of this very object
        other.tokens = self.stored_tokens[other._rows]  # noqa: SLF001
        other._right = {}  # noqa: SLF001
        return other

    def launches(self, tensor: Tensor) -> Iterator[Facts]:
        """The same with the memory before each of the launches in which `tensor` holds its own values.

        Those that every case has, and the one in which a crossed case redraws the sibling.
        """
        yield self
        cross = self.emission.case.cross
        crossed = [] if cross in ("none", tensor) else [LAUNCHES[0]._replace(redrawn="v" if tensor == "k" else "k")]
        for step in (*LAUNCHES[1:], *crossed):
            other = copy.copy(self)
            other._step = step  # noqa: SLF001 - a copy of this very object
            yield other

    def with_values(self, tensor: Tensor, x: Floats) -> Facts:
        """The same emission as if a right kernel got rows `x` `[n, heads, dim]` for `tensor`, of `self.tokens`.

        For what a kernel does to rows that it took from the wrong place.
        """
        other = copy.copy(self)
        rows = self._values[tensor].copy()
        rows[self.tokens] = x
        other._values = {**self._values, tensor: rows}  # noqa: SLF001 - a copy of this very object
        other._right = {each: found for each, found in self._right.items() if each != tensor}  # noqa: SLF001
        return other

    def right(self, tensor: Tensor) -> Agreement:
        """Which emitted bytes of launch 1 are right."""
        if tensor not in self._right:
            self._right[tensor] = self.agreement(tensor, self.values(tensor), self.emitted(tensor))
        return self._right[tensor]

    def all_right(self, tensor: Tensor) -> bool:
        """Whether none of a tensor's codes and scales of launch 1 is wrong."""
        found = self.right(tensor)
        return bool(found.codes.all()) and (found.scales is None or bool(found.scales.all()))

    def read(self, tensor: Placed, tokens: Indices | None = None) -> Floats:
        """The rows of `tokens` that a kernel gets which takes `tensor` for its source: fp32 `[n, heads, dim]`."""
        return self.memory.read(tensor)[self.tokens if tokens is None else tokens]

    def values(self, tensor: Tensor, tokens: Indices | None = None) -> Floats:
        """The rows of `tokens` that a right kernel gets: fp32 `[n, heads, dim]`."""
        return self._values[tensor][self.tokens if tokens is None else tokens]

    def stored(self, tensor: Tensor, x: Floats) -> Stored:
        """What a kernel stores that read `x` `[n, heads, dim]` and is right otherwise."""
        scale = self._scale(tensor, x)
        codes = right_codes(self.contract, x, self._elements(scale, x))
        return Stored(codes, scale if self._stores_scales(tensor) else None)

    def agreement(self, tensor: Tensor, x: Floats, stored: Stored) -> Agreement:
        """Which bytes of `stored` follow from `x`, the codes by the stored scale where that one does."""
        scale, accepted = self._accepted(tensor, x, stored)
        elements = self._elements(scale, x)
        codes = stored.codes == right_codes(self.contract, x, elements)
        if self.contract.declared_ulps:
            low, high = code_bounds(self.contract, x, elements)
            codes |= (stored.codes == low) | (stored.codes == high)
        undefined = np.zeros(x.shape, np.bool_)
        if self.contract.nan == "undefined":
            undefined = np.isnan(apply_scale(self.contract, x, elements))
        return Agreement(codes | undefined, accepted, undefined)

    def scaled(self, tensor: Tensor, stored: Stored) -> tuple[Floats, Mask]:
        """The right rows with their scale applied, fp32 `[n, heads, dim]`, and where that scale is a right one.

        The stored scale, where it is exact or legal; where it is not, the codes say nothing of how they were made.
        """
        x = self.values(tensor)
        scale, accepted = self._accepted(tensor, x, stored)
        elements = self._elements(scale, x)
        known = np.ones(x.shape, np.bool_)
        if accepted is not None:
            known = self._elements(accepted.astype(np.float32), x) != 0
        return apply_scale(self.contract, x, elements), known

    def emitted(self, tensor: Tensor) -> Stored:
        """What launch 1 stored."""
        codes = self._array(f"{tensor}_codes")[..., 0]
        if not self._stores_scales(tensor):
            return Stored(codes, None)
        name = f"{tensor}_scales"
        return Stored(codes, _scale_values(self._array(name), self.emission.placement.get(name)))

    def _accepted(self, tensor: Tensor, x: Floats, stored: Stored) -> tuple[Floats, Mask | None]:
        """The scale of rows `x` to judge codes by, the stored one where it follows from `x`; and where it does."""
        scale, rule, accepted = self._scale(tensor, x), self.contract.scale, None
        if isinstance(rule, Computed) and stored.scale is not None:
            accepted = legal_scales(rule, stored.scale.reshape(_shape(rule, scale)), x).reshape(scale.shape)
            scale = np.where(accepted, stored.scale, scale)
        return scale, accepted

    def _stores_scales(self, tensor: Tensor) -> bool:
        return self.emission.placement.find(f"{tensor}_scales") is not None

    def _scale(self, tensor: Tensor, x: Floats) -> Floats:
        """The right scale of rows `x`: computed `[n, *groups]`, given `[1]` or `[heads]`, or a one."""
        rule = self.contract.scale
        if rule is None:
            return np.ones(1, np.float32)
        if isinstance(rule, Computed):
            scale = right_scales(rule, x)
            return scale[:, None] if scale.ndim == 1 else scale
        return self.given(tensor)

    def given(self, tensor: Tensor) -> Floats:
        """The given scale of K or V, `[1]` or `[heads]`; the contract's scale must be `Given`."""
        rule = self.contract.scale
        given = self._inputs.k_scale if tensor == "k" else self._inputs.v_scale
        assert isinstance(rule, Given)
        assert given is not None
        return given if rule.dtype == "fp32" else dtypes.to_float32(dtypes.from_float32(given, rule.dtype), rule.dtype)

    def _elements(self, scale: Floats, x: Floats) -> Floats:
        """The scale of every element of `x`."""
        return scale if self.contract.scale is None else element_scales(self.contract, scale, x.shape)

    def _array(self, name: str) -> Bytes:
        """The bytes of a tensor's compared rows: uint8 `[n, *a row's dims, item]`."""
        placed = self.emission.placement.get(name)
        data = np.frombuffer(self.emission.launches[0].rows[name], np.uint8)
        return data.reshape(len(self.stored_tokens), *placed.dims[2:], ITEMSIZE[placed.dtype])[self._rows]


def _shape(rule: Computed, scale: Floats) -> tuple[int, ...]:
    """The shape that `formats` gives a scale `[n, *groups]`: one a token has no axis for its group there."""
    return scale.shape[:1] if rule.granularity == "token" else scale.shape


def _scale_values(raw: Bytes, placed: Placed) -> Floats:
    """Stored scales as fp32. An unsigned byte is ue8m0: 2^(byte - 127), and 255 is NaN."""
    if placed.dtype == "uint8":
        exponent = raw[..., 0].astype(np.int32)
        values: Floats = np.ldexp(np.float32(1), np.minimum(exponent, 254) - 127).astype(np.float32)
        values[exponent == 255] = np.nan
        return values
    assert placed.dtype in ("bf16", "fp16", "fp32")
    bits = np.ascontiguousarray(raw).view(np.uint32 if placed.dtype == "fp32" else np.uint16)[..., 0]
    return dtypes.to_float32(bits, placed.dtype)
