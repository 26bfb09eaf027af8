"""Synthetic encoders, taken apart from at most 4096 probes: every part right, and none called exact that is not."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

from kvcheck.encode.cells import of_samples
from kvcheck.encode.classify import Found
from kvcheck.encode.judge import Judged, judge, right
from kvcheck.encode.models import Within
from kvcheck.encode.probes import MOST, probes
from kvcheck.encode.steps import ROUNDINGS
from kvcheck.formats.spec import E4M3FN, FORMATS, Format, Policy

from .synthetic import Parts, encode

FLOATS = [each for each in FORMATS.values() if not each.integer]
#: The fault that each part is, where it has a name.
ROUNDINGS_NAMED = {
    "via_fp16_rtz": "double-rounding-fp16", "via_fp16_rne": "double-rounding-fp16", "via_bf16": "double-rounding-bf16",
}  # fmt: skip


def judged(parts: Parts, number_format: Format, declared: Policy | None = None) -> Judged:
    """What the probes say of an encoder."""
    patterns = probes(number_format)
    codes = encode(patterns.view(np.float32), number_format, parts)
    return judge(of_samples(patterns, codes, number_format), number_format, declared or Policy())


@lru_cache(maxsize=8)
def dense(number_format: Format) -> np.typing.NDArray[np.uint32]:
    """Many more patterns than the probes: ties and what is near them, zeros, infinities, NaNs, and at random."""
    random = np.random.default_rng(4)
    near = probes(number_format).astype(np.int64)[:, None] + random.integers(-(1 << 16), 1 << 16, 4)
    far = random.integers(0, 1 << 32, 1 << 12)
    values = positive(number_format).astype(np.float64)
    ties = ((values[1:] + values[:-1]) / 2).astype(np.float32).view(np.uint32)
    special = np.array([0, 1, 0x7F800000, 0x7F800001, 0x7FC00000], dtype=np.uint32)
    few = np.concatenate([ties, special])
    return np.concatenate([near.reshape(-1) % (1 << 32), far, few, few + (1 << 31)]).astype(np.uint32)


def parts_of(found: Found, number_format: Format) -> Parts:
    """What was found, as a synthetic encoder."""
    within = found.within
    assert within is not None
    assert found.overflow is not None
    assert found.nan is not None
    assert found.negative_zero is not None
    values = np.append(positive(number_format), np.inf)
    return Parts(
        within.rounding, found.overflow, found.nan, found.negative_zero, within.flush, within.lost_carry,
        None if within.clamp is None else float(values[within.clamp]),
        None if within.saturates_from is None else float(values[within.saturates_from]),
        None if within.saturates_at is None else float(np.uint32(within.saturates_at).view(np.float32)),
    )  # fmt: skip


def positive(number_format: Format) -> np.typing.NDArray[np.float32]:
    """Values by their place above zero."""
    from kvcheck.formats.decode import decode  # noqa: PLC0415

    return decode(np.arange(number_format.largest + 1, dtype=np.uint8), number_format)


def check(parts: Parts, number_format: Format) -> Judged:
    """The parts found are those given, or give the same code for every one of many inputs; exact only if it is."""
    found = judged(parts, number_format)
    values = dense(number_format).view(np.float32)
    codes = encode(values, number_format, parts)
    assert found.found.known, (parts, found)
    again = parts_of(found.found, number_format)
    if again != parts:
        assert np.array_equal(codes, encode(values, number_format, again)), (parts, again)
    same = np.array_equal(codes, right(values.view(np.uint32), number_format, Policy()))
    assert same == (found.differ == 0), parts
    assert bool(found.faults) == (found.differ > 0), parts
    assert sum(each.explains for each in found.faults) == found.differ, (parts, found.faults)
    assert all(each.fault or each.says.startswith("policy: ") for each in found.faults), (parts, found.faults)
    return found


@pytest.mark.parametrize("number_format", FORMATS.values(), ids=lambda each: each.name)
def test_probes_are_few(number_format: Format) -> None:
    """At most 4096, each once, of both signs."""
    patterns = probes(number_format)
    assert len(np.unique(patterns)) == len(patterns) <= MOST == 4096
    assert (patterns >> 31).sum() * 2 == len(patterns)


@pytest.mark.parametrize("number_format", FORMATS.values(), ids=lambda each: each.name)
def test_every_rounding_and_policy_is_told(number_format: Format) -> None:
    """The product of all roundings, overflows, NaNs and signs of zero."""
    no_nan = number_format.nan is None
    overflows = ("saturate",) if no_nan else ("saturate", "nan", "infinity_to_nan")
    nans = ["canonical", "keep_sign", "largest", "signed_largest", "zero"]
    if number_format.negative_nan is None:
        nans.remove("keep_sign")
    signs = ("keep", "drop", "drop_zero", "drop_underflow") if number_format.negative_zero else ("keep",)
    for rounding, overflow, nan, sign in product(ROUNDINGS, overflows, nans, signs):
        parts = Parts(rounding, overflow, nan, sign)
        # NaN that is made a number has no sign of its own to give to overflow.
        if overflow != "saturate" and nan not in ("canonical", "keep_sign"):
            continue
        found = check(parts, number_format)
        if not (no_nan and nan == "zero"):
            again = parts_of(found.found, number_format)
            # Toward minus infinity no negative value underflows: the two are the same encoder.
            if rounding == "floor":
                parts = replace(parts, negative_zero={"drop_zero": "drop", "drop_underflow": "keep"}.get(sign, sign))
            assert again == parts, (parts, again)


@pytest.mark.parametrize("number_format", FLOATS, ids=lambda each: each.name)
def test_every_bent_rounding_is_told(number_format: Format) -> None:
    """Roundings with carries lost, subnormals flushed and numbers too early too large."""
    largest = float(positive(number_format)[-1])
    limits = ((None, None, None), (largest / 2, None, None), (None, largest / 4, None), (None, None, largest / 4))
    for rounding, carry, flush, limit in product(
        ROUNDINGS, ("none", "odd", "all"), ("none", "inputs", "results"), limits
    ):
        if flush == "none" or limit == limits[0]:
            check(Parts(rounding, "saturate", "canonical", "keep", flush, carry, *limit), number_format)


@pytest.mark.parametrize("number_format", FORMATS.values(), ids=lambda each: each.name)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_roundings_have_their_fault(rounding: str, number_format: Format) -> None:
    """One fault, which explains all."""
    found = judged(Parts(rounding), number_format)
    if rounding == "rne":
        assert (found.differ, found.faults) == (0, ())
        return
    (named,) = found.faults
    assert named.fault == ROUNDINGS_NAMED.get(rounding, "rounding-mode")
    assert named.explains == named.of == found.differ > 0


@pytest.mark.parametrize(
    ("parts", "faults"),
    [
        (Parts(overflow="nan"), {"overflow-to-nan"}),
        (Parts(overflow="infinity_to_nan"), {"overflow-to-nan"}),
        (Parts(nan="signed_largest"), {"nan-laundered"}),
        (Parts(nan="zero"), {"nan-laundered"}),
        (Parts(nan="keep_sign"), {None}),
        (Parts(negative_zero="drop"), {"negative-zero"}),
        (Parts(flush="inputs"), {"subnormal-flush"}),
        (Parts(lost_carry="all"), {"lost-carry"}),
        (Parts("half_away", lost_carry="odd"), {"lost-carry", "rounding-mode"}),
        (Parts(clamp=240.0), {"early-saturation"}),
        (Parts(saturates_from=256.0), {"early-saturation"}),
        (Parts("half_away", saturates_at=256.0), {"early-saturation", "rounding-mode"}),
        (Parts("half_away", nan="zero", flush="inputs"), {"rounding-mode", "nan-laundered", "subnormal-flush"}),
        (
            Parts("via_fp16_rtz", "nan", negative_zero="drop", lost_carry="all"),
            {"double-rounding-fp16", "overflow-to-nan", "negative-zero", "lost-carry"},
        ),
    ],
    ids=range(14),
)
def test_faults_have_their_slugs(parts: Parts, faults: set[str | None]) -> None:
    """By the codes alone, several at a time."""
    found = judged(parts, E4M3FN)
    assert {each.fault for each in found.faults} == faults
    assert sum(each.explains for each in found.faults) == found.differ


def test_codes_of_another_format_are_named() -> None:
    """e4m3fnuz codes where e4m3fn was declared."""
    patterns = probes(E4M3FN)
    codes = encode(patterns.view(np.float32), FORMATS["e4m3fnuz"], Parts())
    found = judge(of_samples(patterns, codes, E4M3FN), E4M3FN, Policy())
    assert found.found.other_format == "e4m3fnuz"
    assert found.faults[0].fault == "format-confusion"


def test_what_no_rule_gives_has_no_name() -> None:
    """One code in the middle is off by one: counted, shown, not explained."""
    patterns = probes(E4M3FN)
    codes = encode(patterns.view(np.float32), E4M3FN, Parts())
    at = int(np.flatnonzero(codes == 0x40)[0])
    codes[at] = 0x41
    found = judge(of_samples(patterns, codes, E4M3FN), E4M3FN, Policy())
    assert found.differ == 1
    (named,) = found.faults
    assert (named.fault, named.explains, named.of) == (None, 1, 1)
    (difference,) = found.differences
    assert difference.kind == "rounding"
    assert (difference.examples[0].got, difference.examples[0].want) == (0x41, 0x40)


def test_a_declared_rounding_is_what_codes_are_held_against() -> None:
    """Truncation that is declared is right, and nearest even then is not."""
    declared = Policy(rounding="rtz", negative_zero="drop")
    assert judged(Parts("rtz", negative_zero="drop"), E4M3FN, declared).differ == 0
    (named,) = judged(Parts("rne", negative_zero="drop"), E4M3FN, declared).faults
    assert named.fault == "rounding-mode"


def test_parts_of_normal_and_subnormal_values_are_found_apart() -> None:
    """Truncated subnormals under rounded normal values: each has its rounding, and the fault is the one's."""
    patterns = probes(E4M3FN)
    values = patterns.view(np.float32)
    codes = encode(values, E4M3FN, Parts())
    small = np.abs(values) < 2.0**-6
    codes[small] = encode(values[small], E4M3FN, Parts("rtz"))
    found = judge(of_samples(patterns, codes, E4M3FN), E4M3FN, Policy())
    assert found.found.within is None
    assert found.found.normal == Within("rne")
    assert found.found.subnormal == Within("rtz")
    assert [each.fault for each in found.faults] == ["rounding-mode"]
    assert {each.kind for each in found.differences} == {"subnormal"}


def test_replaced_parts_are_equal_only_where_codes_are() -> None:
    """The check above can fail: other parts give other codes on the dense inputs."""
    values = dense(E4M3FN).view(np.float32)
    plain = encode(values, E4M3FN, Parts())
    for rounding in ROUNDINGS[1:]:
        assert not np.array_equal(plain, encode(values, E4M3FN, replace(Parts(), rounding=rounding)))
