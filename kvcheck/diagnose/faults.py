"""Every fault that has a prediction."""

from __future__ import annotations

from kvcheck.diagnose.fault import Fault
from kvcheck.diagnose.sibling_pitch import SiblingPitch

FAULTS: tuple[Fault, ...] = (SiblingPitch(),)
