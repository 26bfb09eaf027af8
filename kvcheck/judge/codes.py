"""Channel 1: every stored code against the contract's arithmetic, given the scale that was emitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import NamedTuple

import numpy as np

from kvcheck.contract import Contract
from kvcheck.formats.arithmetic import code_bounds, right_codes
from kvcheck.judge.emitted import Emitted
from kvcheck.judge.expected import Expected
from kvcheck.judge.scales import JudgedScales
from kvcheck.judge.subject import Bytes, Floats, Mask, Rows, Side, spread, undefined_codes
from kvcheck.schema import CodesVerdict, FirstWrong


class Comparison(NamedTuple):
    """Codes held against the right ones, `want`; which of them are compared, wrong, legal. All `[u, heads, dim]`."""

    want: Bytes
    compared: Mask
    wrong: Mask
    legal: Mask


@dataclass(frozen=True)
class JudgedCodes:
    """One launch's codes of K or V, `got` `[u, heads, dim]`, and what they are judged by.

    `scale` `[u, heads, dim]` is the one that `judged` goes by: the emitted one where it is exact or legal, else the
    right one. `given_emitted` goes by the emitted scale, whatever it is.
    """

    side: Side
    expected: Expected
    got: Bytes
    scale: Floats
    judged: Comparison
    given_emitted: Comparison

    @property
    def compared(self) -> Mask:
        """Which codes are compared."""
        return self.judged.compared

    @property
    def wrong(self) -> Mask:
        """Which codes are wrong."""
        return self.judged.wrong


def judge_codes(side: Side, right: Expected, found: Emitted, scales: JudgedScales | None, lost: Mask) -> JudgedCodes:
    """One launch's codes; `lost` `[u, heads, dim]` are none. `scales` is the scales' verdict where any are stored."""
    shape, contract = right.x.shape, side.contract
    under_right = _held_against(contract, right, found.codes, lost)
    if scales is None or found.scale is None or scales.exact.all():
        scale = spread(contract, right.scale, shape)
        return JudgedCodes(side, right, found.codes, scale, under_right, under_right)
    # A scale of which a byte was lost is none: the right one stands in for it.
    stored = np.where(scales.compared, found.scale, right.scale)
    under_emitted = _held_against(contract, _under(contract, right, stored), found.codes, lost)
    usable = scales.exact | scales.legal
    accepted = spread(contract, usable.astype(np.float32), shape) != 0
    chosen = Comparison(*(np.where(accepted, *pair) for pair in zip(under_emitted, under_right, strict=True)))
    scale = spread(contract, np.where(usable, stored, right.scale), shape)
    return JudgedCodes(side, right, found.codes, scale, chosen, under_emitted)


def codes_verdict(launches: Sequence[Sequence[JudgedCodes]], rows: Rows) -> CodesVerdict:
    """The channel's figures. `launches[l]` holds K and V of launch `l`. Every slot's codes count once."""
    k, v = launches[0]
    return CodesVerdict(
        compared=int(k.compared.sum()) + int(v.compared.sum()),
        wrong=int(k.wrong.sum()) + int(v.wrong.sum()),
        legal=int(k.judged.legal.sum()) + int(v.judged.legal.sum()),
        wrong_given_emitted=int(k.given_emitted.wrong.sum()) + int(v.given_emitted.wrong.sum()),
        wrong_any_launch=sum(int(wrong.sum()) for wrong in wrong_anywhere(launches)),
        k_wrong=int(k.wrong.sum()),
        v_wrong=int(v.wrong.sum()),
        first=_first(launches, rows),
        k_compared=int(k.compared.sum()),
        v_compared=int(v.compared.sum()),
    )


def wrong_anywhere(launches: Sequence[Sequence[JudgedCodes]]) -> list[Mask]:
    """K's and V's codes that are wrong in at least one launch."""
    return [np.logical_or.reduce([side.wrong for side in sides]) for sides in zip(*launches, strict=True)]


def _under(contract: Contract, right: Expected, scale: Floats) -> Expected:
    """What is right under another scale `[u, *groups]`."""
    elements = spread(contract, scale, right.x.shape)
    codes = right_codes(contract, right.x, elements)
    undefined = undefined_codes(contract, right.x, elements)
    return replace(right, scale=scale, codes=codes, undefined=undefined)


def _held_against(contract: Contract, right: Expected, got: Bytes, lost: Mask) -> Comparison:
    """Codes held against those that are right under `right.scale`."""
    compared = ~lost & ~right.undefined
    unlike = compared & (got != right.codes)
    legal = np.zeros_like(unlike)
    if contract.declared_ulps and unlike.any():
        elements = spread(contract, right.scale, right.x.shape)
        legal[unlike] = _within(contract, got[unlike], right.x[unlike], elements[unlike])
    return Comparison(right.codes, compared, unlike & ~legal, legal)


def _within(contract: Contract, got: Bytes, x: Floats, scale: Floats) -> Mask:
    """Whether codes `[m]` round some value within the declared error of `x` and `scale`: one of the two ends' codes."""
    low, high = code_bounds(contract, x[:, None, None], scale[:, None, None])
    return np.asarray((got == low[:, 0, 0]) | (got == high[:, 0, 0]))


def _first(launches: Sequence[Sequence[JudgedCodes]], rows: Rows) -> FirstWrong | None:
    """The first wrong code of the first launch that has one."""
    for number, sides in enumerate(launches, 1):
        for side in sides:
            if side.wrong.any():
                return _first_of(side, rows, number)
    return None


def _first_of(codes: JudgedCodes, rows: Rows, launch: int) -> FirstWrong:
    row, head, dim = (int(index) for index in np.argwhere(codes.wrong)[0])
    x, scale = float(codes.expected.x[row, head, dim]), float(codes.scale[row, head, dim])
    return FirstWrong(
        tensor=codes.side.tensor,
        token=int(codes.expected.tokens[row, head]),
        head=head,
        dim=dim,
        slot=int(rows.slots[rows.judged[row]]),
        got=int(codes.got[row, head, dim]),
        want=int(codes.judged.want[row, head, dim]),
        x=x if isfinite(x) else None,
        scale=scale if isfinite(scale) else None,
        launch=launch,
    )
