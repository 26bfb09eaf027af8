"""Every fault that has a prediction."""

from __future__ import annotations

from kvcheck.diagnose.encoding import DOUBLE_ROUNDING_BF16, DOUBLE_ROUNDING_FP16, ROUNDING_MODE
from kvcheck.diagnose.fault import Fault
from kvcheck.diagnose.sibling_pitch import SiblingPitch

#: In the order in which equals are named: new ones go to the end, reports point into the list of their own run.
FAULTS: tuple[Fault, ...] = (SiblingPitch(), DOUBLE_ROUNDING_FP16, DOUBLE_ROUNDING_BF16, ROUNDING_MODE)
