"""Faults of one name are one: in the list of a report each name stands once."""

from __future__ import annotations

from judge.emulate import COMPUTED, emulate, given_store, store

from kvcheck.contract import Contract, Given
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.family import by_name
from kvcheck.diagnose.faults import FAULTS
from kvcheck.judge import judge
from kvcheck.schema import Case


class Fixed:
    """A fault that says one thing of everything."""

    def __init__(self, slug: str, says: str, *, seen: bool) -> None:
        """`seen` is whether it is observable."""
        self.slug = slug
        self._says = says
        self._seen = seen

    @property
    def forms(self) -> tuple[str, ...]:
        """One, named like what it says."""
        return (self._says,)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """As told."""
        del facts
        return {self._says: self._seen}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """As told."""
        del facts
        return [Explanation(self.slug, "k", None, None, 1, 1, 1, self._says)]


def test_a_name_stands_once_where_it_first_stood() -> None:
    """Two of three share a name: what they say is said in order, and each answers for its own form."""
    emission = emulate(case=Case(heads=1, head_dim=16, tokens=1))
    facts = Facts(emission, emission.contract, judge(emission))  # type: ignore[arg-type]
    found = by_name([Fixed("a", "1", seen=False), Fixed("b", "2", seen=False), Fixed("a", "3", seen=True)])
    assert [fault.slug for fault in found] == ["a", "b"]
    assert [fault.forms for fault in found] == [("1", "3"), ("2",)]
    assert [fault.shown(facts) for fault in found] == [{"1": False, "3": True}, {"2": False}]
    assert [made.says for made in found[0].explanations(facts)] == ["1", "3"]


def test_no_fault_is_listed_twice() -> None:
    """Indices into the list say which fault is meant."""
    slugs = [fault.slug for fault in FAULTS]
    assert len(slugs) == len(set(slugs))


def test_forms_are_what_shown_answers_for() -> None:
    """A form that no contract answers for would be a promise that no case keeps; every answer is for a listed form."""
    answered: dict[str, set[str]] = {fault.slug: set() for fault in FAULTS}
    given = Contract(scale=Given("tensor"), rounding="rtz")
    for contract, kernel, values in ((COMPUTED, store, "normal*5"), (given, given_store(1.0, 1.0), "nan")):
        emission = emulate(kernel, Case(heads=5, head_dim=64, tokens=3, k_values=values), contract)
        facts = Facts(emission, contract, judge(emission))
        for fault in FAULTS:
            answered[fault.slug] |= set(fault.shown(facts))
    assert answered == {fault.slug: set(fault.forms) for fault in FAULTS}
