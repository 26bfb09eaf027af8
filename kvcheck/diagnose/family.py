"""One fault that more than one thing shows: an index may wrap where rows are read, and where they are written."""

from __future__ import annotations

from collections.abc import Sequence

from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.fault import Fault


class Family:
    """Faults of one name as one."""

    def __init__(self, slug: str, members: Sequence[Fault]) -> None:
        """`members` all have that slug."""
        self.slug = slug
        self._members = tuple(members)

    def observable(self, facts: Facts) -> bool:
        """Whether all of them are: a pass is not said to have shown what one form of the fault would have hidden."""
        return all(fault.observable(facts) for fault in self._members)

    def explanations(self, facts: Facts) -> list[Explanation]:
        """What all of them say, in their order."""
        return [made for fault in self._members for made in fault.explanations(facts)]


def by_name(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """The faults, those of one name joined where the first of them stands."""
    named: dict[str, list[Fault]] = {}
    for fault in faults:
        named.setdefault(fault.slug, []).append(fault)
    return tuple(group[0] if len(group) == 1 else Family(slug, group) for slug, group in named.items())
