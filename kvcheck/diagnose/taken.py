"""Rows that a kernel took for K's or V's, and what the contract makes of them, against which stored bytes are held."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kvcheck.contract import Computed, Contract
from kvcheck.formats.arithmetic import (
    LegalScales,
    apply_scale,
    code_bounds,
    element_scales,
    right_codes,
)

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

#: Codes of a row that are held against a prediction first: rows of another origin have other ones there already.
FIRST = 8


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


@dataclass(frozen=True, eq=False)
class AllowedCodes:
    """The codes that the contract allows of rows under one scale; all `[n, heads, dim]`.

    `right` is exact; `bounds` are the two ends of what a declared error allows, None where there is none. `undefined`
    marks codes that the contract leaves open.
    """

    right: Bytes
    bounds: tuple[Bytes, Bytes] | None
    undefined: Mask

    def admits(self, codes: Bytes) -> Mask:
        """Which of some codes, one for each element, are allowed."""
        found: Mask = (codes == self.right) | self.undefined
        if self.bounds is not None:
            low, high = self.bounds
            found |= (codes == low) | (codes == high)
        return found


def allowed_codes(contract: Contract, x: Floats, scale: Floats) -> AllowedCodes:
    """The codes that are allowed of `x` `[n, heads, dim]` under a scale for every element."""
    bounds = code_bounds(contract, x, scale) if contract.declared_ulps else None
    undefined = np.zeros(x.shape, np.bool_)
    if contract.nan == "undefined":
        undefined = np.isnan(apply_scale(contract, x, scale))
    return AllowedCodes(right_codes(contract, x, scale), bounds, undefined)


class Taken:
    """Rows `x` fp32 `[n, heads, dim]`, with all that follows from them, computed when first asked for, and once."""

    def __init__(self, contract: Contract, x: Floats, given: Floats | None, *, keeps: bool) -> None:
        """`given` is the scale `[1]` or `[heads]` where one is given; `keeps` says whether scales are stored."""
        self.x = x
        self._contract = contract
        self._given = given
        self._keeps = keeps

    @cached_property
    def scale(self) -> Floats:
        """The right scale: computed `[n, *groups]`, given `[1]` or `[heads]`, or a one."""
        if self._legal is not None:
            right = self._legal.right
            return right[:, None] if right.ndim == 1 else right
        return np.ones(1, np.float32) if self._given is None else self._given

    @cached_property
    def allowed(self) -> AllowedCodes:
        """The codes that are allowed under the right scale."""
        return allowed_codes(self._contract, self.x, self.elements(self.scale))

    @cached_property
    def stored(self) -> Stored:
        """What a right kernel stores."""
        return Stored(self.allowed.right, self.scale if self._keeps else None)

    def agreement(self, stored: Stored) -> Agreement:
        """Which bytes of `stored` follow from the rows, the codes by the stored scale where that one does."""
        scale, accepted = self._accepted(stored.scale)
        allowed = self.under(scale)
        return Agreement(allowed.admits(stored.codes), accepted, allowed.undefined)

    def may_fit(self, stored: Stored) -> Mask:
        """Which (token, head) rows of `stored` may follow from the rows in full: `[n, heads]`. Those that do are here.

        Their scales do, and so do their first codes. What takes other rows has as a rule neither.
        """
        scale, accepted = self._accepted(stored.scale)
        fits = ~any_in_row(~accepted, self.x.shape[:2]) if accepted is not None else np.ones(self.x.shape[:2], np.bool_)
        if not fits.any():
            return fits
        part = np.s_[:, :, :FIRST]
        allowed = allowed_codes(self._contract, self.x[part], self.elements(scale)[part])
        return np.asarray(fits & allowed.admits(stored.codes[part]).all(axis=2))

    def scaled(self, stored: Stored) -> tuple[Floats, Mask]:
        """The rows with their scale applied, fp32 `[n, heads, dim]`, and where that scale is a right one.

        The stored scale, where it is exact or legal; where it is not, the codes say nothing of how they were made.
        """
        return self._scaled_right if stored is self.stored else self._scaled(stored)

    @cached_property
    def _scaled_right(self) -> tuple[Floats, Mask]:
        return self._scaled(self.stored)

    def _scaled(self, stored: Stored) -> tuple[Floats, Mask]:
        scale, accepted = self._accepted(stored.scale)
        known = np.ones(self.x.shape, np.bool_)
        if accepted is not None:
            known = self.elements(accepted.astype(np.float32)) != 0
        return apply_scale(self._contract, self.x, self.elements(scale)), known

    def by(self, stored: Floats | None) -> AllowedCodes:
        """The codes that are allowed by stored scales, where these follow from the rows, else by the right ones."""
        return self.under(self._accepted(stored)[0])

    def under(self, scale: Floats) -> AllowedCodes:
        """The codes that are allowed by scales `[n, *groups]`, whether they follow from the rows or not."""
        same = scale is self.scale or np.array_equal(scale.view(np.uint32), self.scale.view(np.uint32))
        return self.allowed if same else allowed_codes(self._contract, self.x, self.elements(scale))

    def elements(self, scale: Floats) -> Floats:
        """The scale of every element."""
        if scale is self.scale:
            return self._elements_right
        return self._elements(scale)

    @cached_property
    def _elements_right(self) -> Floats:
        return self._elements(self.scale)

    def _elements(self, scale: Floats) -> Floats:
        if self._contract.scale is None:
            return np.broadcast_to(scale, self.x.shape)
        return element_scales(self._contract, scale, self.x.shape)

    def legal(self, scale: Floats) -> Mask:
        """Which of some stored scales `[n, *groups]` follow from the rows; the contract must compute them."""
        assert self._legal is not None
        return self._legal.admits(scale.reshape(self._legal.right.shape)).reshape(scale.shape)

    def _accepted(self, stored: Floats | None) -> tuple[Floats, Mask | None]:
        """The scale to judge codes by, the stored one where it follows from the rows; and where it does."""
        if self._legal is None or stored is None:
            return self.scale, None
        if stored is self.scale:
            return stored, np.ones(stored.shape, np.bool_)
        accepted = self.legal(stored)
        return np.where(accepted, stored, self.scale), accepted

    @cached_property
    def _legal(self) -> LegalScales | None:
        rule = self._contract.scale
        return LegalScales(rule, self.x) if isinstance(rule, Computed) else None


def any_in_row(scales: Mask | None, shape: tuple[int, ...]) -> Mask:
    """Whether any scale of a (token, head) row is marked; a scale of the whole token marks all its heads."""
    if scales is None or not scales.size:
        return np.zeros(shape, np.bool_)
    return np.broadcast_to(scales.any(axis=2) if scales.ndim == 3 else scales, shape)
