"""Channel 2: every stored scale against the contract's rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from kvcheck.contract import Computed
from kvcheck.formats.arithmetic import legal_scales
from kvcheck.judge.expected import Expected
from kvcheck.judge.subject import Floats, Indices, Mask, Rows
from kvcheck.schema import FirstScale, ScalesVerdict, Tensor


@dataclass(frozen=True)
class JudgedScales:
    """One launch's scales of K or V, each array `[u, *groups]`: what was stored, what is right, what that means.

    `ulps` is the distance to the right scale; `tokens` `[u, heads]` are those whose rows these are.
    """

    tensor: Tensor
    tokens: Indices
    found: Floats
    right: Floats
    compared: Mask
    exact: Mask
    legal: Mask
    ulps: npt.NDArray[np.int64]

    @property
    def wrong(self) -> Mask:
        """Compared, and neither exact nor legal."""
        return self.compared & ~self.exact & ~self.legal


def judge_scales(tensor: Tensor, rule: Computed, right: Expected, found: Floats, lost: Mask) -> JudgedScales:
    """Stored scales `found` against the `right` ones, both `[u, *groups]`; `lost` ones are not compared."""
    exact = agree(found, right.scale)
    legal = np.zeros_like(exact)
    if rule.declared_ulps and not exact.all():
        shape = right.scale.shape[:1] if rule.granularity == "token" else right.scale.shape
        legal = legal_scales(rule, found.reshape(shape), right.x).reshape(exact.shape) & ~exact & ~lost
    ulps = distance(found, right.scale)
    return JudgedScales(tensor, right.tokens, found, right.scale, ~lost, exact, legal, ulps)


def agree(found: Floats, right: Floats) -> Mask:
    """Whether scales are the same bits. NaNs agree: no rule promises a payload."""
    same: Mask = found.view(np.uint32) == right.view(np.uint32)
    return same | (np.isnan(found) & np.isnan(right))


def distance(found: Floats, right: Floats) -> npt.NDArray[np.int64]:
    """How many fp32 numbers lie between two, counted so that neighbours are 1 apart and -0 and 0 are 0 apart."""
    apart: npt.NDArray[np.int64] = np.abs(_ordinal(found) - _ordinal(right))
    return np.where(agree(found, right), 0, apart)


def scales_verdict(launches: Sequence[Sequence[JudgedScales]], rows: Rows) -> ScalesVerdict:
    """The channel's figures. `launches[l]` holds the sides that store scales, in launch `l`; none: all zero."""
    first = launches[0]
    wrong = {side.tensor: int(side.wrong.sum()) for side in first}
    anywhere = sum(int(wrong.sum()) for wrong in wrong_anywhere(launches))
    return ScalesVerdict(
        compared=sum(int(side.compared.sum()) for side in first),
        wrong=sum(wrong.values()),
        legal=sum(int(side.legal.sum()) for side in first),
        wrong_any_launch=anywhere,
        max_ulp=max((int(side.ulps[side.compared].max(initial=0)) for side in first), default=0),
        k_wrong=wrong.get("k", 0),
        v_wrong=wrong.get("v", 0),
        first=_first(launches, rows),
    )


def wrong_anywhere(launches: Sequence[Sequence[JudgedScales]]) -> list[Mask]:
    """Each side's scales that are wrong in at least one launch."""
    return [np.logical_or.reduce([side.wrong for side in sides]) for sides in zip(*launches, strict=True)]


def _first(launches: Sequence[Sequence[JudgedScales]], rows: Rows) -> FirstScale | None:
    """The first wrong scale of the first launch that has one."""
    for number, sides in enumerate(launches, 1):
        for side in sides:
            if side.wrong.any():
                at = tuple(int(index) for index in np.argwhere(side.wrong)[0])
                got, want = float(side.found[at]), float(side.right[at])
                heads = side.tokens.shape[1]
                return FirstScale(
                    tensor=side.tensor,
                    token=int(side.tokens[at[0], min(at[1], heads - 1)]),
                    head=at[1] if side.wrong.ndim == 3 or side.wrong.shape[1] == heads else None,
                    block=at[2] if side.wrong.ndim == 3 else None,
                    slot=int(rows.slots[rows.judged[at[0]]]),
                    got=got if isfinite(got) else None,
                    want=want if isfinite(want) else None,
                    ulps=int(side.ulps[at]),
                    launch=number,
                )
    return None


def _ordinal(values: Floats) -> npt.NDArray[np.int64]:
    """fp32 numbers as integers in the order of their values."""
    bits = np.ascontiguousarray(values).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFF_FFFF), bits)
