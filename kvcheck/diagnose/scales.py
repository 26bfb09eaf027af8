"""The faults of scales, each with its forms: a wrong scale with codes that follow it, or a right one used wrongly."""

from __future__ import annotations

from kvcheck.diagnose.fault import Fault
from kvcheck.diagnose.populations import POPULATIONS, RECOVERED, with_what_follows
from kvcheck.diagnose.scale_fault import ScaleFault
from kvcheck.diagnose.scale_rules import (
    by_reciprocal,
    least_added,
    least_of_the_other,
    no_least,
    other_least,
    other_maximum,
    power_below,
    power_nearest,
    within_ulps,
    zero_rows_have,
)
from kvcheck.diagnose.scale_uses import (
    inverted,
    kept_amax,
    kept_inverted,
    kept_times,
    of_another_row,
    other_maximum_used,
    reciprocal,
    rounded_kept,
    rounded_reciprocal,
    rounded_use,
    swapped,
    twice,
    unapplied,
)

SCALES: tuple[Fault, ...] = (
    ScaleFault("scale-swapped", (swapped,)),
    ScaleFault("scale-misapplied", (unapplied, inverted, twice), rarely=(kept_inverted, kept_amax, kept_times)),
    ScaleFault("amax-population", POPULATIONS, rarely=RECOVERED),
    ScaleFault("wrong-max", (other_maximum,), rarely=(other_maximum_used,)),
    ScaleFault(
        "scale-rounded",
        (
            rounded_kept("fp16", used=False),
            rounded_kept("bf16", used=False),
            rounded_kept("fp16", used=True),
            rounded_kept("bf16", used=True),
            rounded_use("fp16"),
            rounded_use("bf16"),
        ),
        rarely=(rounded_reciprocal("fp16"), rounded_reciprocal("bf16"), power_below, power_nearest),
    ),
    ScaleFault("zero-row", (no_least,), rarely=(other_least, least_of_the_other, least_added, zero_rows_have)),
    ScaleFault("approximate-division", (reciprocal, by_reciprocal)),
    # An error that is allowed for explains any code beside a tie: whatever gives the very codes is the better account.
    ScaleFault("approximate-division", (), rarely=(within_ulps,), cost=3),
    ScaleFault("scale-address", (), rarely=(of_another_row,), cost=2),
    ScaleFault("foreign-read", (), rarely=(with_what_follows,), cost=2),
)
