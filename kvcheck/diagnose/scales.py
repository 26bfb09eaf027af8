"""The faults of scales, each with its forms: a wrong scale with codes that follow it, or a right one used wrongly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from kvcheck.contract import Computed, Given
from kvcheck.diagnose.facts import Facts, Floats, Stored
from kvcheck.diagnose.scale_fault import Form, Made, ScaleFault
from kvcheck.formats import bits
from kvcheck.formats.apply import apply_scale, contract_format, contract_policy
from kvcheck.formats.cast import round_to
from kvcheck.formats.scale import bounded, derived, element_scales, finished, largest_magnitudes, right_scales
from kvcheck.schema import Tensor

#: The constant to ask observability with: e4m3fnuz's largest, by far the most common one that is wrong.
COMMON_MAXIMUM = 240.0
#: A recovered constant is believed where it is a multiple of this: kernels write 127, 240, 57344, 0.5.
STEP = 0.25
#: ... and, where one quotient is all there is, no more than this.
LARGEST_ALONE = 512.0


def _encoded(facts: Facts, scaled: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Scaled values as codes, by the contract's own rules."""
    policy = contract_policy(facts.contract)
    return bits.encode(
        scaled,
        contract_format(facts.contract),
        rounding=policy.rounding,
        overflow=policy.overflow,
        nan=policy.nan,
        negative_zero=policy.negative_zero,
    )


def _applied(facts: Facts, x: Floats, scale: Floats) -> Floats:
    """Rows with a scale `[n, *groups]` or a given one applied as the contract says."""
    with np.errstate(all="ignore"):
        return apply_scale(facts.contract, x, element_scales(facts.contract, scale, x.shape))


def followed(facts: Facts, tensor: Tensor, scale: Floats) -> Stored:
    """What is stored by a kernel that computes this scale, and uses what it computed."""
    return Stored(_encoded(facts, _applied(facts, facts.values(tensor), scale)), _grouped(scale))


def _grouped(scale: Floats) -> Floats:
    """A scale a token has one group."""
    return scale[:, None] if scale.ndim == 1 else scale


def other_maximum(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Another constant for the format's largest value, recovered from the scales and their amax."""
    rule = facts.contract.scale
    if not isinstance(rule, Computed) or emitted.scale is None or rule.derive == "power_of_two":
        return None
    amax = largest_magnitudes(rule, facts.values(tensor))
    limit = _maximum(_grouped(bounded(rule, amax)), emitted.scale)
    if limit is None or limit == rule.maximum:  # nothing is recovered: the one that is asked for most
        limit = COMMON_MAXIMUM if rule.maximum != COMMON_MAXIMUM else COMMON_MAXIMUM / 2
    with np.errstate(all="ignore"):
        scale = finished(rule, amax, derived(rule.derive, bounded(rule, amax), np.float32(limit)))
    says = (
        f"scales are those of {limit:g} for the largest value, where {rule.maximum:g} is due, and its codes are theirs"
    )
    return Made(followed(facts, tensor, scale), says, {"maximum": limit, "due": rule.maximum})


def _maximum(amax: Floats, scale: Floats) -> float | None:
    """The constant that makes these scales of their amax, as a multiple of `STEP`."""
    if amax.shape != scale.shape:
        return None
    some = np.isfinite(scale) & np.isfinite(amax) & (scale > 0) & (amax > 0)
    if not some.any():
        return None
    found = float(np.median(amax[some].astype(np.float64) / scale[some]))
    nearest = round(found / STEP) * STEP
    # One amax and its scale have always some quotient: it is believed where it could be a format's largest value.
    alone = len(np.unique(amax[some])) == 1
    return nearest if nearest > 0 and not (alone and nearest > LARGEST_ALONE) else None


def _population(words: str, values: Callable[[Facts, Tensor, Floats], Floats]) -> Form:
    """Scales of other values than the row's own."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        rule = facts.contract.scale
        if not isinstance(rule, Computed) or emitted.scale is None:
            return None
        scale = right_scales(rule, values(facts, tensor, facts.values(tensor)))
        says = f"scales are those of the largest magnitude of {words}, and its codes are theirs"
        return Made(followed(facts, tensor, scale), says, {"population": words})

    return form


def _whole_token(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001 - one signature for all
    return np.broadcast_to(np.abs(np.nan_to_num(x, posinf=np.inf)).max(axis=(1, 2), keepdims=True), x.shape)


def _first_half(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
    return np.where(np.arange(x.shape[2]) < x.shape[2] // 2, x, np.float32(0))


def _second_half(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
    return np.where(np.arange(x.shape[2]) >= x.shape[2] // 2, x, np.float32(0))


def _positive(facts: Facts, tensor: Tensor, x: Floats) -> Floats:  # noqa: ARG001
    return np.where(x < 0, np.float32(0), x)


def _both(facts: Facts, tensor: Tensor, x: Floats) -> Floats:
    other = facts.values("v" if tensor == "k" else "k")
    return x if other.shape != x.shape else np.fmax(np.abs(x), np.abs(other))


def without_least(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Nothing that keeps a scale from zero."""
    rule = facts.contract.scale
    if not isinstance(rule, Computed) or emitted.scale is None:
        return None
    scale = right_scales(replace(rule, eps=0.0, zero_row=None), facts.values(tensor))
    says = "scales have no least value: rows of zeros, or of less than it, get smaller ones, and codes of 0 / 0"
    return Made(followed(facts, tensor, scale), says, {})


def by_reciprocal(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """The scale as the amax times a reciprocal, one rounding too many."""
    rule = facts.contract.scale
    if not isinstance(rule, Computed) or emitted.scale is None or rule.derive != "divide":
        return None
    scale = right_scales(replace(rule, derive="multiply_reciprocal"), facts.values(tensor))
    says = "scales are the amax times the reciprocal of the largest value, not divided by it"
    return Made(followed(facts, tensor, scale), says, {})


def _used(words: str, use: Callable[[Facts, Floats, Floats], Floats | None]) -> Form:
    """Right scales, and codes of values to which they are applied otherwise."""

    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        x, scale = facts.values(tensor), _due(facts, tensor, emitted)
        if scale is None:
            return None
        with np.errstate(all="ignore"):
            scaled = use(facts, x, element_scales(facts.contract, scale, x.shape))
        if scaled is None:
            return None
        return Made(Stored(_encoded(facts, scaled), emitted.scale), f"codes are {words}", {})

    return form


def _due(facts: Facts, tensor: Tensor, emitted: Stored) -> Floats | None:
    """The scale to use: the emitted one where all of them are right, or the given one."""
    rule = facts.contract.scale
    if isinstance(rule, Computed):
        right = facts.agreement(tensor, facts.values(tensor), emitted).scales
        return emitted.scale if right is not None and right.all() else None
    return facts.given(tensor) if isinstance(rule, Given) else None


def swapped(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """K's given scale for V's, or the reverse."""
    other: Tensor = "v" if tensor == "k" else "k"
    if not isinstance(facts.contract.scale, Given) or emitted.scale is not None:
        return None
    scale = facts.given(other)
    if scale.shape != facts.given(tensor).shape:
        return None
    codes = _encoded(facts, _applied(facts, facts.values(tensor), scale))
    return Made(Stored(codes, None), f"codes are those of {other.upper()}'s scale", {})


def _multiplies(facts: Facts) -> bool:
    rule = facts.contract.scale
    return isinstance(rule, Given) and rule.direction == "multiplier"


def _inverted(facts: Facts, x: Floats, scale: Floats) -> Floats:
    return x / scale if _multiplies(facts) else x * scale


def _twice(facts: Facts, x: Floats, scale: Floats) -> Floats:
    return x * scale * scale if _multiplies(facts) else x / scale / scale


def _reciprocal(facts: Facts, x: Floats, scale: Floats) -> Floats | None:
    return None if _multiplies(facts) else x * (np.float32(1) / scale)


def _rounded_use(words: str, dtype: str) -> Form:
    def use(facts: Facts, x: Floats, scale: Floats) -> Floats:
        return apply_scale(facts.contract, x, round_to(scale, dtype))  # type: ignore[arg-type]

    return _used(f"those of the scale rounded to {words}", use)


def _rounded_kept(words: str, dtype: str, *, used: bool) -> Form:
    def form(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
        rule = facts.contract.scale
        if not isinstance(rule, Computed) or emitted.scale is None or rule.dtype == dtype:
            return None
        due = right_scales(rule, facts.values(tensor))
        kept = np.asarray(round_to(due, dtype), np.float32)  # type: ignore[arg-type]
        codes = followed(facts, tensor, kept if used else due).codes
        which = "the rounded ones" if used else "those before they were rounded"
        says = f"scales are rounded to {words} when they are kept, and its codes are those of {which}"
        return Made(Stored(codes, _grouped(kept)), says, {"dtype": dtype})

    return form


SCALES = (
    ScaleFault("scale-swapped", (swapped,)),
    ScaleFault(
        "scale-misapplied",
        (
            _used("those of the values as they are, the scale not applied", lambda facts, x, scale: x),  # noqa: ARG005
            _used("those of the values with the scale applied the wrong way round", _inverted),
            _used("those of the values with the scale applied twice", _twice),
        ),
    ),
    ScaleFault(
        "amax-population",
        (
            _population("the whole token", _whole_token),
            _population("each row's first half", _first_half),
            _population("each row's second half", _second_half),
            _population("the positive elements", _positive),
            _population("K and V together", _both),
        ),
    ),
    ScaleFault("wrong-max", (other_maximum,)),
    ScaleFault(
        "scale-rounded",
        (
            _rounded_kept("fp16", "fp16", used=False),
            _rounded_kept("bf16", "bf16", used=False),
            _rounded_kept("fp16", "fp16", used=True),
            _rounded_kept("bf16", "bf16", used=True),
            _rounded_use("fp16", "fp16"),
            _rounded_use("bf16", "bf16"),
        ),
    ),
    ScaleFault("zero-row", (without_least,)),
    ScaleFault(
        "approximate-division", (_used("those of the values times the scale's reciprocal", _reciprocal), by_reciprocal)
    ),
)
