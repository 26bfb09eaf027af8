"""Scales that no largest magnitude gives, but a constant times a mean of each row: of magnitudes, or of squares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvcheck.diagnose.facts import Facts, Floats, Mask, Stored
from kvcheck.diagnose.scale_fault import Made
from kvcheck.diagnose.scale_rules import applied, computed
from kvcheck.schema import Tensor

#: Unlike scales that a constant must be met in, and by what share they may be off: sums depend on their order.
LEAST, OFF = 3, 1e-5
#: Axes of a row that has one scale, `[n, heads, dim]`.
AXES = {"token_head": (2,), "token": (1, 2)}


def of_a_mean(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Scales of a mean, the constant recovered from them; codes are theirs."""
    rule, right = computed(facts, emitted), facts.right(tensor).scales
    axes = None if rule is None else AXES.get(rule.granularity)
    if rule is None or axes is None or emitted.scale is None or right is None or right.all():
        return None
    x = facts.values(tensor)
    magnitude = np.abs(np.where(np.isfinite(x), x, np.float32(0))).astype(np.float64)
    for words, mean in (
        ("the mean magnitude", magnitude.mean(axis=axes)),
        ("the root mean square", np.sqrt((magnitude**2).mean(axis=axes))),
    ):
        of = mean.reshape(emitted.scale.shape)
        kept = _times(of, emitted.scale, ~right)
        due = facts.own(tensor).scale
        if kept is not None and (np.abs(kept[1] - due) > 2 * OFF * due)[~right].all():
            factor, scale = kept
            times = factor * rule.maximum
            says = f"scales are those of {times:.4g} times {words} of each row, and its codes are theirs"
            scaled = applied(facts, x, scale)
            return Made(scale, says, {"factor": times}, scaled=scaled)
    return None


def _times(of: npt.NDArray[np.float64], scale: Floats, wrong: Mask) -> tuple[float, Floats] | None:
    """The constant that a mean is multiplied by, and the scales, where most wrong ones are so."""
    some = wrong & (of > 0) & np.isfinite(scale) & (scale > 0)
    if len(np.unique(scale[some])) < LEAST:
        return None
    factor = float(np.median(scale[some] / of[some]))
    near = np.abs(scale - factor * of) <= OFF * factor * of
    return (factor, np.where(near, scale, (factor * of).astype(np.float32))) if near[some].all() else None
