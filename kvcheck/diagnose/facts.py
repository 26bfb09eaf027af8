"""The right and the emitted bytes of launch 1, as faults need them.

A slot that tokens share is one row: that of the token whose row most likely stands there.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kvcheck.contract import Computed, Contract, Given
from kvcheck.diagnose.image import SourceMemory
from kvcheck.diagnose.sharers import SIGN, Apart, nearest, shared
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
Item = TypeVar("Item", bound=np.generic)

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
        self.alone: Mask = count[which] == 1
        """Which of them have their slot for themselves: `[stored tokens]`."""
        self._heads: Indices = np.arange(emission.case.heads, dtype=np.int64)
        self._rows, self._sources = self._owners()
        self.tokens: Indices = self.stored_tokens[self._rows]
        """The tokens whose rows are compared, one for each slot."""

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
        last = np.repeat(other._rows[:, None], len(self._heads), axis=1)  # noqa: SLF001
        other._sources = {"k": last, "v": last}  # noqa: SLF001
        other.__dict__.pop("row_of", None)
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
        """The same emission as if a right kernel got rows `x` `[stored tokens, heads, dim]` for `tensor`.

        For what a kernel does to rows that it took from the wrong place.
        """
        other = copy.copy(self)
        rows = self._values[tensor].copy()
        rows[self.stored_tokens] = x
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

    @cached_property
    def row_of(self) -> Indices:
        """Which of the slots compared is that of each stored token: `[stored tokens]`."""
        compared = self.slots[self._rows]
        order = np.argsort(compared)
        return np.asarray(order[np.searchsorted(compared[order], self.slots)], np.int64)

    def positions(self, tensor: Tensor) -> Indices:
        """Where in `stored_tokens` those are whose rows stand in the slots compared, head by head: `[n, heads]`.

        They are those of `tokens` but in slots that tokens share: there another one's may stand in a head of K or V.
        """
        return self._sources[tensor]

    def sources(self, tensor: Tensor) -> Indices:
        """The tokens at `positions`: `[n, heads]`."""
        return self.stored_tokens[self._sources[tensor]]

    def chosen(self, tensor: Tensor, rows: npt.NDArray[Item]) -> npt.NDArray[Item]:
        """Those of all tokens' `rows` `[tokens, heads, ...]` that stand in the slots compared: `[n, heads, ...]`."""
        if self.alone.all():
            return rows[self.tokens]
        return rows[self.sources(tensor), self._heads]

    def read(self, tensor: Placed, tokens: Indices | None = None) -> Floats:
        """The rows of `tokens` that a kernel gets which takes `tensor` for its source: fp32 `[n, heads, dim]`.

        `tensor` is K or V, wherever it is taken to lie; without `tokens` the rows are those that `values` gives.
        """
        rows = self.memory.read(tensor)
        return self.chosen("k" if tensor.name == "k" else "v", rows) if tokens is None else rows[tokens]

    def values(self, tensor: Tensor, tokens: Indices | None = None) -> Floats:
        """The rows of `tokens` that a right kernel gets: fp32 `[n, heads, dim]`; else those of the slots compared."""
        rows = self._values[tensor]
        return self.chosen(tensor, rows) if tokens is None else rows[tokens]

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

    def emitted(self, tensor: Tensor, rows: Indices | None = None) -> Stored:
        """What launch 1 stored in the slots compared, or in those of `rows`, positions in `stored_tokens`."""
        rows = self._rows if rows is None else rows
        codes = self._array(f"{tensor}_codes", rows)[..., 0]
        if not self._stores_scales(tensor):
            return Stored(codes, None)
        name = f"{tensor}_scales"
        return Stored(codes, _scale_values(self._array(name, rows), self.emission.placement.get(name)))

    def _owners(self) -> tuple[Indices, dict[Tensor, Indices]]:
        """One position in `stored_tokens` for each slot, ascending, and whose rows stand there (see `positions`)."""
        alone, heads = np.flatnonzero(self.alone), self.emission.case.heads
        rows, k, v = [alone], [np.repeat(alone[:, None], heads, axis=1)], [np.repeat(alone[:, None], heads, axis=1)]
        if not self.alone.all():
            k_apart, v_apart = (self._apart(tensor) for tensor in TENSORS)
            for sharers in shared(self.slots):
                whole, in_k, in_v = nearest(k_apart.of(sharers), v_apart.of(sharers))
                rows.append(sharers[[whole]])
                k.append(sharers[in_k][None])
                v.append(sharers[in_v][None])
        every = np.concatenate(rows)
        order = np.argsort(every)
        return every[order], {"k": np.concatenate(k)[order], "v": np.concatenate(v)[order]}

    def _apart(self, tensor: Tensor) -> Apart:
        """How far the right row of each stored token is from what stands in its slot; 0 where that is its own."""
        rows = np.flatnonzero(~self.alone)
        x, emitted = self.values(tensor, self.stored_tokens[rows]), self.emitted(tensor, rows)
        found = self.agreement(tensor, x, emitted)
        signs = ~found.codes & (x != 0) & ((emitted.codes & 0x7F) != 0) & (np.signbit(x) != (emitted.codes >= 0x80))
        codes = np.zeros((len(self.stored_tokens), x.shape[1]), np.int64)
        scales = np.zeros(codes.shape, np.bool_)
        codes[rows] = (~found.codes).sum(axis=2) + SIGN * signs.sum(axis=2)
        if found.scales is not None:
            scales[rows] = ~(found.scales.all(axis=2) if found.scales.ndim == 3 else found.scales)
            if found.scales.shape[1] != codes.shape[1]:
                codes = np.repeat(codes.sum(axis=1, keepdims=True), codes.shape[1], axis=1)
        return Apart(codes, scales, x.shape[2])

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

    def _array(self, name: str, rows: Indices) -> Bytes:
        """The bytes of a tensor's `rows`, positions in `stored_tokens`: uint8 `[n, *a row's dims, item]`."""
        placed = self.emission.placement.get(name)
        data = np.frombuffer(self.emission.launches[0].rows[name], np.uint8)
        return data.reshape(len(self.stored_tokens), *placed.dims[2:], ITEMSIZE[placed.dtype])[rows]


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
