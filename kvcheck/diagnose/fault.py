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

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of the fault that a pass speaks of, in words; one that needs no words is empty.

        Others may be named where they are met.
        """

    def shown(self, facts: Facts) -> dict[str, bool]:
        """For each of the `forms` that the contract admits, whether a kernel that has it would fail this case.

        `facts` are `standing`. What the emission's kernel stored has no part in it: only what it was given.
        """

    def explanations(self, facts: Facts) -> list[Explanation]:
        """What of the emitted bytes the fault explains: as a rule one explanation a tensor, none where it does not."""


class Unpromised:
    """A fault of which a pass says nothing: it is named where it is met."""

    @property
    def forms(self) -> tuple[str, ...]:
        """None."""
        return ()

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Nothing."""
        del facts
        return {}
