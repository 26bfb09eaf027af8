"""Where each specimen must fail, by which channel, and where its fault cannot show."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvcheck.schema import Case

from .channels import Channel

#: Small, and with room for every fault: three tokens, three heads, a head_dim that is no power of two.
SMALL = Case(tokens=3, head_dim=48)


def small(**axes: str | int) -> Case:
    """`SMALL` with other values."""
    return Case(**{"tokens": 3, "head_dim": 48, **axes})  # type: ignore[arg-type] # each is of its field's type


@dataclass(frozen=True)
class Shown:
    """A specimen fails `shows` by these channels at least, and passes `hides`."""

    shows: Case = SMALL
    hides: Case = field(default_factory=lambda: small(tokens=0))
    channels: frozenset[Channel] = frozenset({"codes"})


def _by(*channels: Channel) -> frozenset[Channel]:
    return frozenset(channels)


CODES_SCALES = _by("codes", "scales")
MISPLACED = _by("lost", "stray")
#: Values whose scale is 1 and whose codes are exact: nothing is left to a rounding, or to the applied scale.
EXACT = small(k_values="grid", v_values="grid")
ONE_HEAD = small(heads=1)
PAGES = small(tokens=8, k_cache="padded", v_cache="padded")

SPECIMENS: dict[str, Shown] = {
    "shared-pitch": Shown(small(k_view="qkv"), channels=CODES_SCALES),
    "shared-pitch-of-v": Shown(small(v_view="qkv"), channels=CODES_SCALES),
    "dense-heads": Shown(small(k_view="transposed"), SMALL, CODES_SCALES),
    "unit-inner-stride": Shown(small(v_view="inner2"), SMALL, CODES_SCALES),
    "grouped-heads": Shown(SMALL, ONE_HEAD, CODES_SCALES),
    "next-head": Shown(SMALL, ONE_HEAD, CODES_SCALES),
    "truncated-vector": Shown(small(head_dim=46), SMALL, CODES_SCALES),
    "wrapped-source": Shown(small(tokens=8, heads=8, head_dim=576, k_view="qkv"), SMALL, CODES_SCALES),
    "wrapped-slot-offset": Shown(small(tokens=8, heads=8, head_dim=576, slots="last"), SMALL, MISPLACED),
    "storage-begin": Shown(small(k_view="offset8", layout="exact"), small(layout="exact"), CODES_SCALES),
    "sibling-cache-stride": Shown(small(v_cache="padded"), SMALL, MISPLACED),
    "first-layer": Shown(small(layers=3), SMALL, MISPLACED),
    "row-major-pages": Shown(SMALL, ONE_HEAD, MISPLACED),
    "page-stride-from-shape": Shown(PAGES, small(tokens=8), MISPLACED),
    "page-boundary": Shown(PAGES, small(slots="last", tokens=1), MISPLACED),
    "whole-vectors": Shown(small(head_dim=46), SMALL, _by("lost")),
    "last-lane": Shown(channels=_by("lost")),
    "exact-range": Shown(SMALL, small(head_dim=64), _by("crash")),
    "dense-scales": Shown(small(k_cache="padded"), SMALL, MISPLACED),
    "head-major-scales": Shown(SMALL, ONE_HEAD, MISPLACED),
    "swapped-scales": Shown(SMALL),
    "multiplied-scale": Shown(SMALL),
    "twice-applied-scale": Shown(SMALL),
    "unapplied-scale": Shown(SMALL, EXACT),
    "stored-scale-fp16": Shown(SMALL, EXACT, _by("scales")),
    "used-scale-bf16": Shown(SMALL, EXACT),
    "token-amax": Shown(SMALL, ONE_HEAD, CODES_SCALES),
    "half-row-amax": Shown(channels=CODES_SCALES),
    "maximum-240": Shown(channels=CODES_SCALES),
    "maximum-440": Shown(channels=CODES_SCALES),
    "zero-row": Shown(small(k_values="zero_rows"), SMALL, CODES_SCALES),
    "toward-zero": Shown(SMALL, EXACT),
    "ties-away": Shown(small(k_values="midpoints"), EXACT),
    "through-fp16": Shown(small(k_values="midpoints", dtype="fp32"), EXACT),
    "through-bf16": Shown(small(k_values="midpoints", dtype="fp32"), EXACT),
    "reciprocal": Shown(small(tokens=8, head_dim=128, seed=1), EXACT),
    "lost-carry": Shown(small(k_values="midpoints"), EXACT),
    "flushed-subnormals": Shown(small(k_values="subnormal_codes"), small(k_values="constant", v_values="constant")),
    "positive-zero": Shown(small(k_values="negative_zero"), small(k_values="constant", v_values="constant")),
    "early-saturation": Shown(SMALL, small(k_values="constant", v_values="constant")),
    "overflow-to-nan": Shown(small(k_values="normal*1e4"), SMALL),
    "laundered-nan": Shown(small(k_values="nan"), SMALL),
    "e5m2-codes": Shown(),
    "fnuz-codes": Shown(),
    "bytes-of-source": Shown(SMALL),
    "numeric-store": Shown(),
    "odd-token-lost": Shown(SMALL, small(tokens=2), _by("lost")),
    "cloned-cache": Shown(small(k_cache="padded"), SMALL, _by("lost")),
    "planned-slots": Shown(small(launch="graph"), SMALL, _by("lost", "stray")),
    "cleared-gap": Shown(small(k_cache="head_padded"), SMALL, _by("stray")),
    "negative-slot": Shown(small(slots="negative_mixed"), SMALL, _by("stray")),
    "torn-duplicate": Shown(small(slots="duplicates"), SMALL, _by("scales")),
    "running-scale": Shown(small(tokens=8), channels=CODES_SCALES),
    "amax-behind-row": Shown(small(tokens=1), small(tokens=1, layout="pooled", order="vk"), CODES_SCALES),
    "clamped-in-place": Shown(small(k_values="normal*1e4"), SMALL, _by("inputs")),
    "random-rounding": Shown(SMALL, EXACT, _by("codes", "determinism")),
}
