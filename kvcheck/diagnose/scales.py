"""The faults of scales, each with its forms: a wrong scale with codes that follow it, or a right one used wrongly."""

from __future__ import annotations

from kvcheck.diagnose.behind import with_what_follows
from kvcheck.diagnose.fault import Fault
from kvcheck.diagnose.given_heads import by_element, by_token
from kvcheck.diagnose.least_values import (
    larger_of_the_two,
    least_added,
    least_of_the_other,
    no_least,
    other_least,
    zero_rows_have,
)
from kvcheck.diagnose.means import of_a_mean
from kvcheck.diagnose.narrowed import (
    narrow_arithmetic,
    power_used,
    rounded_amax,
    rounded_kept,
    rounded_reciprocal,
    rounded_source,
    rounded_use,
    rounded_values,
)
from kvcheck.diagnose.populations import POPULATIONS, RECOVERED
from kvcheck.diagnose.rounded_populations import of_a_population_rounded
from kvcheck.diagnose.scale_fault import ScaleFault
from kvcheck.diagnose.scale_kept import (
    kept_amax,
    kept_constant,
    kept_in_another_order,
    kept_in_other_bytes,
    kept_inverted,
    kept_logarithm,
    kept_of_another_row,
    kept_times,
)
from kvcheck.diagnose.scale_rules import (
    COMMON_MAXIMA,
    by_reciprocal,
    exponent_of_amax,
    for_largest,
    no_more_than,
    other_maximum,
    power_below,
    power_nearest,
    within_ulps,
)
from kvcheck.diagnose.scale_uses import (
    by_the_siblings,
    inverted,
    of_another_row,
    of_other_heads,
    of_the_row_before,
    other_maximum_used,
    reciprocal,
    swapped,
    swapped_computed,
    times_power,
    twice,
    unapplied,
)
from kvcheck.diagnose.short_scales import kept_short

FIRST_HALF, WHOLE_TOKEN = "each row's first half", "the whole token"
KEPT_FP16, USED_BF16 = rounded_kept("fp16", used=False), rounded_use("bf16")

SCALES: tuple[Fault, ...] = (
    ScaleFault("scale-swapped", (swapped,)),
    ScaleFault(
        "scale-misapplied",
        (unapplied, inverted, twice, times_power, kept_inverted, kept_logarithm, kept_amax),
        usual={"not applied": unapplied, "the wrong way round": inverted, "twice": twice},
    ),
    # Powers of two are few: what is rounded otherwise says more than another amax that has the same.
    ScaleFault("scale-rounded", (power_below, power_nearest, exponent_of_amax), usual={}),
    ScaleFault(
        "amax-population",
        (*POPULATIONS.values(), *RECOVERED),
        usual={name: POPULATIONS[name] for name in (WHOLE_TOKEN, FIRST_HALF)},
    ),
    ScaleFault(
        "wrong-max",
        (other_maximum, other_maximum_used, no_more_than),
        usual={f"{maximum:g}": for_largest(maximum) for maximum in COMMON_MAXIMA},
    ),
    ScaleFault(
        "scale-rounded",
        (
            KEPT_FP16,
            rounded_kept("bf16", used=False),
            rounded_kept("fp16", used=True),
            rounded_kept("bf16", used=True),
            rounded_kept("bf16", used=False, cut=True),
            rounded_kept("bf16", used=True, cut=True),
            rounded_use("fp16"),
            USED_BF16,
            power_used("below"),
            power_used("above"),
            rounded_reciprocal("fp16"),
            rounded_reciprocal("bf16"),
            rounded_amax("fp16"),
            rounded_amax("bf16"),
            rounded_amax("bf16", cut=True),
        ),
        usual={"to fp16 when kept": KEPT_FP16, "to bf16 when used": USED_BF16},
    ),
    ScaleFault("zero-row", (no_least, other_least, least_of_the_other, larger_of_the_two, least_added, zero_rows_have)),
    ScaleFault("approximate-division", (reciprocal, by_reciprocal)),
    # An error that is allowed for explains any code beside a tie: whatever gives the very codes is the better account.
    ScaleFault("approximate-division", (within_ulps,), usual={}, cost=3),
    ScaleFault("scale-address", (of_another_row, of_the_row_before, kept_of_another_row), usual={}, cost=2),
    # A constant is recovered from what is kept: what has none to recover is the plainer account.
    ScaleFault("scale-misapplied", (kept_times,), usual={}, cost=2),
    ScaleFault(
        "scale-swapped",
        (swapped_computed,),
        usual={"V by K's computed scales": by_the_siblings("v"), "K by V's computed scales": by_the_siblings("k")},
        cost=2,
    ),
    # Any order is the last that is thought of: a rule that gives the same scales says more.
    ScaleFault("scale-address", (of_other_heads, by_element, by_token), usual={}, cost=3),
    # What is kept for all may be the sibling's scale, or a row's, that is due for all of those.
    ScaleFault("scale-misapplied", (kept_constant,), usual={}, cost=4),
    ScaleFault("scale-layout", (kept_in_another_order, kept_in_other_bytes, kept_short), usual={}, cost=2),
    ScaleFault("amax-population", (of_a_mean,), usual={}, cost=2),
    ScaleFault("amax-population", (of_a_population_rounded,), usual={}, cost=3),
    ScaleFault("foreign-read", (with_what_follows,), usual={}, cost=2),
    ScaleFault(
        "double-rounding-fp16", (rounded_source("fp16"), rounded_values("fp16"), narrow_arithmetic("fp16")), usual={}
    ),
    ScaleFault(
        "double-rounding-bf16", (rounded_source("bf16"), rounded_values("bf16"), narrow_arithmetic("bf16")), usual={}
    ),
)
