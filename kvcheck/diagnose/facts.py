"""The right and the emitted bytes of launch 1, as faults need them.

A slot that tokens share is one row: that of the token whose row most likely stands there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from kvcheck.addresses import element_offsets
from kvcheck.contract import Contract, Given
from kvcheck.diagnose.image import SourceMemory
from kvcheck.diagnose.sharers import SIGN, Apart, nearest, shared
from kvcheck.diagnose.taken import Agreement, Bytes, Floats, Mask, Stored, Taken
from kvcheck.draw import dtypes
from kvcheck.draw.image import Images, case_inputs
from kvcheck.draw.inputs import addressed
from kvcheck.emission import LAUNCHES, Step, scale_values
from kvcheck.schema import ITEMSIZE, Emission, Placed, Tensor, Verdict

Indices = npt.NDArray[np.int64]
Item = TypeVar("Item", bound=np.generic)
Kept = TypeVar("Kept", Taken, Stored, Agreement)

TENSORS: tuple[Tensor, Tensor] = ("k", "v")

__all__ = ["TENSORS", "Agreement", "Bytes", "Facts", "Floats", "Indices", "Mask", "Stored"]


class Facts:
    """One emission, with everything that more than one fault asks for, computed when first asked for."""

    def __init__(self, emission: Emission, contract: Contract, verdict: Verdict) -> None:
        """`contract` is the emission's, and one that `is_supported`; `verdict` is what the judge says of it.

        Of an emission without launches only what a case would show can be asked.
        """
        self.emission = emission
        self.contract = contract
        self.verdict = verdict
        self._step = LAUNCHES[0]
        self._images = Images(emission.placement, emission.case, contract)
        self._memories: dict[Step, SourceMemory] = {}
        self._inputs = case_inputs(emission.placement, emission.case, contract)
        self._values: dict[Tensor, Floats] = {"k": self._inputs.k_float, "v": self._inputs.v_float}
        self._kept: dict[tuple[str, Tensor], Taken | Stored | Agreement] = {}
        slots = self._inputs.slots
        self.stored_tokens: Indices = np.flatnonzero(addressed(slots))
        """The tokens that are stored, those that share a slot included."""
        self.slots: Indices = slots[self.stored_tokens]
        """Their slots."""
        _, which, count = np.unique(self.slots, return_inverse=True, return_counts=True)
        self.alone: Mask = count[which] == 1
        """Which of them have their slot for themselves: `[stored tokens]`."""
        self._heads: Indices = np.arange(emission.case.heads, dtype=np.int64)
        self._rows, self._sources = self._owners() if emission.launches else self._last()
        self.tokens: Indices = self.stored_tokens[self._rows]
        """The tokens whose rows are compared, one for each slot."""

    @cached_property
    def sharing(self) -> tuple[Indices, Indices]:
        """The positions in `stored_tokens` of every two tokens that share a slot, each pair both ways round."""
        order = np.argsort(self.slots, kind="stable")
        ascending, one, other = self.slots[order], [order[:0]], [order[:0]]
        for apart in range(1, len(order)):
            first = np.flatnonzero(ascending[apart:] == ascending[:-apart])
            if not len(first):
                break
            one += [order[first], order[first + apart]]
            other += [order[first + apart], order[first]]
        return np.concatenate(one), np.concatenate(other)

    @cached_property
    def compared(self) -> Mask:
        """Which of `stored_tokens` are `tokens`."""
        found: Mask = np.zeros(len(self.stored_tokens), np.bool_)
        found[self._rows] = True
        return found

    @cached_property
    def before(self) -> tuple[Bytes, ...]:
        """Every allocation's bytes before launch 1; of those that `launches` gives, before theirs."""
        return self._images.before(*self._step)

    @property
    def memory(self) -> SourceMemory:
        """`before`, by addresses. Made once for all that are copies."""
        if self._step not in self._memories:
            self._memories[self._step] = SourceMemory(self.before, self.emission.addresses)
        return self._memories[self._step]

    def standing(self) -> Facts:
        """The same with the rows that stand in the end: of tokens that share a slot, the last one's."""
        other = self._but("compared", "row_of")
        other._rows, other._sources = self._last()  # noqa: SLF001 - a copy of this very object
        other.tokens = self.stored_tokens[other._rows]  # noqa: SLF001
        if not self.alone.all():
            other._kept = {}  # noqa: SLF001
        return other

    def launches(self, tensor: Tensor) -> Iterator[Facts]:
        """The same with the memory before each of the launches in which `tensor` holds its own values.

        Those that every case has, and the one in which a crossed case redraws the sibling.
        """
        yield self
        cross = self.emission.case.cross
        crossed = [] if cross in ("none", tensor) else [LAUNCHES[0]._replace(redrawn="v" if tensor == "k" else "k")]
        for step in (*LAUNCHES[1:], *crossed):
            other = self._but("before")
            other._step = step  # noqa: SLF001 - a copy of this very object
            yield other

    def with_values(self, tensor: Tensor, x: Floats) -> Facts:
        """The same emission as if a right kernel got rows `x` `[stored tokens, heads, dim]` for `tensor`.

        For what a kernel does to rows that it took from the wrong place.
        """
        other = self._but()
        rows = self._values[tensor].copy()
        rows[self.stored_tokens] = x
        other._values = {**self._values, tensor: rows}  # noqa: SLF001 - a copy of this very object
        other._kept = {key: found for key, found in self._kept.items() if key[1] != tensor}  # noqa: SLF001
        return other

    def _but(self, *stale: str) -> Facts:
        """A copy, without what of this object's cached properties is another's there."""
        other = copy.copy(self)
        for name in stale:
            other.__dict__.pop(name, None)
        return other

    def own(self, tensor: Tensor) -> Taken:
        """The rows that a right kernel gets, of the slots compared."""
        kept = self._kept.get(("own", tensor))  # asked for a hundred times a case
        if kept is None:
            kept = self._kept["own", tensor] = self.taken(tensor, self.chosen(tensor, self._values[tensor]))
        return cast("Taken", kept)

    def own_stored(self, tensor: Tensor) -> Taken:
        """The rows that a right kernel gets, of `stored_tokens`."""
        if self.alone.all():
            return self.own(tensor)
        return self._once("stored", tensor, lambda: self.taken(tensor, self._values[tensor][self.stored_tokens]))

    def taken(self, tensor: Tensor, x: Floats) -> Taken:
        """Rows `x` `[n, heads, dim]` that a kernel takes for K's or V's."""
        given = self.given(tensor) if isinstance(self.contract.scale, Given) else None
        return Taken(self.contract, x, given, keeps=self._stores_scales(tensor))

    def right(self, tensor: Tensor) -> Agreement:
        """Which emitted bytes of launch 1 are right."""
        return self._once("right", tensor, lambda: self.own(tensor).agreement(self.emitted(tensor)))

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

    def known(self, tensor: Placed, tokens: Indices) -> Mask | None:
        """Which elements of `read` are of memory that kvcheck has filled: `[n, heads, dim]`; None where all are."""
        places = element_offsets(tensor)[tokens] + np.int64(self.emission.addresses[tensor.allocation])
        return self.memory.known_at(places, tensor.dtype)

    def values(self, tensor: Tensor, tokens: Indices | None = None) -> Floats:
        """The rows of `tokens` that a right kernel gets: fp32 `[n, heads, dim]`; else those of the slots compared."""
        return self.own(tensor).x if tokens is None else self._values[tensor][tokens]

    def emitted(self, tensor: Tensor) -> Stored:
        """What launch 1 stored in the slots compared."""
        return self._once("emitted", tensor, lambda: self._emitted(tensor, self._rows))

    def emitted_stored(self, tensor: Tensor) -> Stored:
        """What launch 1 stored in the slots of `stored_tokens`."""
        if self.alone.all():
            return self.emitted(tensor)
        every = np.arange(len(self.stored_tokens), dtype=np.int64)
        return self._once("every", tensor, lambda: self._emitted(tensor, every))

    def _emitted(self, tensor: Tensor, rows: Indices) -> Stored:
        """What launch 1 stored in the slots of `rows`, positions in `stored_tokens`."""
        codes = self._array(f"{tensor}_codes", rows)[..., 0]
        if not self._stores_scales(tensor):
            return Stored(codes, None)
        name = f"{tensor}_scales"
        return Stored(codes, scale_values(self._array(name, rows), self.emission.placement.get(name)))

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

    def _last(self) -> tuple[Indices, dict[Tensor, Indices]]:
        """What `_owners` gives where the last of the tokens that share a slot stands there."""
        _, first = np.unique(self.slots[::-1], return_index=True)
        rows = np.sort(len(self.slots) - 1 - first)
        last = np.repeat(rows[:, None], len(self._heads), axis=1)
        return rows, {"k": last, "v": last}

    def _apart(self, tensor: Tensor) -> Apart:
        """How far the right row of each stored token is from what stands in its slot; 0 where that is its own."""
        rows = np.flatnonzero(~self.alone)
        x, emitted = self.values(tensor, self.stored_tokens[rows]), self._emitted(tensor, rows)
        found = self.taken(tensor, x).agreement(emitted)
        signs = ~found.codes & (x != 0) & ((emitted.codes & 0x7F) != 0) & (np.signbit(x) != (emitted.codes >= 0x80))
        codes = np.zeros((len(self.stored_tokens), x.shape[1]), np.int64)
        scales = np.zeros(codes.shape, np.bool_)
        codes[rows] = (~found.codes).sum(axis=2) + SIGN * signs.sum(axis=2)
        if found.scales is not None:
            scales[rows] = ~(found.scales.all(axis=2) if found.scales.ndim == 3 else found.scales)
            if found.scales.shape[1] != codes.shape[1]:
                codes = np.repeat(codes.sum(axis=1, keepdims=True), codes.shape[1], axis=1)
        return Apart(codes, scales, x.shape[2])

    def _once(self, what: str, tensor: Tensor, make: Callable[[], Kept]) -> Kept:
        """What was made of a tensor before, or is made now."""
        key = (what, tensor)
        if key not in self._kept:
            self._kept[key] = make()
        return cast("Kept", self._kept[key])

    def _stores_scales(self, tensor: Tensor) -> bool:
        return self.emission.placement.find(f"{tensor}_scales") is not None

    def given(self, tensor: Tensor) -> Floats:
        """The given scale of K or V, `[1]` or `[heads]`; the contract's scale must be `Given`."""
        rule = self.contract.scale
        given = self._inputs.k_scale if tensor == "k" else self._inputs.v_scale
        assert isinstance(rule, Given)
        assert given is not None
        return given if rule.dtype == "fp32" else dtypes.to_float32(dtypes.from_float32(given, rule.dtype), rule.dtype)

    def _array(self, name: str, rows: Indices) -> Bytes:
        """The bytes of a tensor's `rows`, positions in `stored_tokens`: uint8 `[n, *a row's dims, item]`."""
        placed = self.emission.placement.get(name)
        data = np.frombuffer(self.emission.launches[0].rows[name], np.uint8)
        return data.reshape(len(self.stored_tokens), *placed.dims[2:], ITEMSIZE[placed.dtype])[rows]
