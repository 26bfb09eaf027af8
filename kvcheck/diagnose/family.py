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

    @property
    def forms(self) -> tuple[str, ...]:
        """Those of all of them."""
        return tuple(form for fault in self._members for form in fault.forms)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """What each of them says of its own forms."""
        return {form: shows for fault in self._members for form, shows in fault.shown(facts).items()}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """What all of them say, in their order."""
        return [made for fault in self._members for made in fault.explanations(facts)]


def by_name(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """The faults, those of one name joined where the first of them stands."""
    named: dict[str, list[Fault]] = {}
    for fault in faults:
        named.setdefault(fault.slug, []).append(fault)
    return tuple(group[0] if len(group) == 1 else Family(slug, group) for slug, group in named.items())
