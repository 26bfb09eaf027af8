"""What a fault is: a prediction of the bytes that it leaves, held against what was emitted."""

from __future__ import annotations

from typing import Protocol

from kvcheck.diagnose.facts import Facts
from kvcheck.schema import Diagnosis


class Fault(Protocol):
    """A named class of wrong kernels. It knows the case and the bytes, never the target's name or file."""

    @property
    def slug(self) -> str:
        """The name that reports use."""

    def observable(self, facts: Facts) -> bool:
        """Whether a kernel with this fault would leave another byte than a right one, in this case."""

    def diagnoses(self, facts: Facts) -> list[Diagnosis]:
        """What of the emitted bytes the fault explains: at most one diagnosis a tensor, none where it does not."""
