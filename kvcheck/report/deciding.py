"""Which axes tell failing cases from the others: one axis where one does it, else the first pair that does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from kvcheck.report import axes
from kvcheck.report.axes import Value

#: More combinations of values than this are no explanation.
MOST = 6


def deciding(every: Sequence[Mapping[str, Value]], own: Sequence[Mapping[str, Value]], names: Sequence[str]) -> str:
    """The values of one axis, or of two, that all of `own` have and none of the other cases among `every` has.

    Empty where no axis and no pair does so, where it takes more than `MOST` combinations to say, or where fewer cases
    fail or pass than there are combinations: that would be chance, not a rule.
    """
    rest = _without(every, own)
    varied = [name for name in names if len({str(each.get(name, axes.UNSET)) for each in every}) > 1]
    for width in (1, 2):
        for chosen in combinations(varied, width):
            mine = _values(own, chosen)
            if (
                len(mine) <= MOST
                and 2 * len(mine) <= min(len(own), len(rest))
                and mine.isdisjoint(_values(rest, chosen))
            ):
                return f"{','.join(chosen)} is {' or '.join(sorted(mine))}"
    return ""


def _values(cases: Sequence[Mapping[str, Value]], names: tuple[str, ...]) -> set[str]:
    return {",".join(str(case.get(name, axes.UNSET)) for name in names) for case in cases}


def _without(every: Sequence[Mapping[str, Value]], own: Sequence[Mapping[str, Value]]) -> list[Mapping[str, Value]]:
    taken = {tuple(sorted((name, str(value)) for name, value in case.items())) for case in own}
    return [case for case in every if tuple(sorted((name, str(value)) for name, value in case.items())) not in taken]
