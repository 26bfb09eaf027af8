"""What a fault is: a prediction of the bytes that it leaves, held against what was emitted."""

from __future__ import annotations

from typing import Protocol

from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import Facts


class Fault(Protocol):
    """A named class of wrong kernels. It knows the case and the bytes, never the target's name or file."""

    @property
    def slug(self) -> str:
        """The name that reports use."""

    def observable(self, facts: Facts) -> bool:
        """Whether a kernel with this fault would leave another byte than a right one, in this case."""

    def explanations(self, facts: Facts) -> list[Explanation]:
        """What of the emitted bytes the fault explains: as a rule one explanation a tensor, none where it does not."""
