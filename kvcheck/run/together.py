"""A few cases that pass, run once more several to one process: what a kernel keeps must not change what it stores."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from statistics import median_high

from kvcheck.matrix.ids import axes_of
from kvcheck.run.blame import SLUG, blame, same
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery, NurseryLostError
from kvcheck.run.protocol import TargetInfo
from kvcheck.run.scratch import scratch
from kvcheck.run.several import Desk
from kvcheck.schema import Case, CaseResult, Together

#: Cases that are drawn: one of so many, and at least and at most so many. Each runs twice.
ONE_OF = 40
LEAST, MOST = 3, 9

#: Layouts that make memory of a process of its own: torch is told of one before it first allocates, and the end at a
#: fence is told apart by it.
APART = frozenset({"exact", "fence", "fence-before"})


def drawn(cases: Sequence[Case], results: Sequence[CaseResult]) -> list[int]:
    """Which cases run together, in the order in which they first do: as unlike as can be, none larger than most.

    All pass. Those that fail or crash by themselves are left out: what follows them in a process would suffer for it.
    """
    fit = [
        number
        for number, (case, result) in enumerate(zip(cases, results, strict=True))
        if result.outcome == "pass" and result.codes.compared and case.layout not in APART
    ]
    middle = median_high(results[number].codes.compared for number in fit) if fit else 0
    fit = [number for number in fit if results[number].codes.compared <= middle]
    fit.sort(key=lambda number: (results[number].codes.compared, results[number].id))
    picked = fit[:1]
    axes = [axes_of(case) for case in cases]
    while len(picked) < min(len(fit), max(LEAST, min(MOST, len(cases) // ONE_OF))):
        left = [number for number in fit if number not in picked]
        picked.append(max(left, key=lambda number: min(_unlike(axes[number], axes[other]) for other in picked)))
    random.Random(len(picked)).shuffle(picked)  # noqa: S311 - an order, the same in every run
    return picked


def _unlike(one: dict[str, str | int], other: dict[str, str | int]) -> int:
    return sum(one.get(name) != other.get(name) for name in {*one, *other})


def run_together(
    nursery: Nursery, info: TargetInfo, cases: Sequence[Case], results: Sequence[CaseResult], options: Options
) -> tuple[list[CaseResult], Together]:
    """All results, those of cases that end otherwise behind others among them; and what was done.

    One process runs the cases that are drawn in one order, another in the reverse: of any two each comes once behind
    the other.
    """
    began = time.monotonic()
    picked = drawn(cases, results)
    if len(picked) < 2:
        return list(results), Together(not_run="fewer than two cases pass that could share a process")
    with scratch() as root:
        desk = Desk(nursery, info, cases, options, root)
        found = list(results)
        try:
            compared, unlike = _compare(desk, picked, found)
        except NurseryLostError:
            nursery.restart()
            return list(results), Together(not_run="the process that runs the cases died")
    if not compared:
        return found, Together(not_run="none of the processes came to a second case")
    seconds = round(time.monotonic() - began, 3)
    return found, Together(compared, 2, tuple(found[number].id for number in unlike), seconds=seconds)


def _compare(desk: Desk, picked: Sequence[int], found: list[CaseResult]) -> tuple[int, list[int]]:
    """How many cases have run behind others; and which end otherwise there. Their results are put into `found`.

    Raises NurseryLostError.
    """
    orders = [list(picked), list(picked[::-1])]
    behind: set[int] = set()
    suspects: dict[int, tuple[list[int], CaseResult]] = {}
    for order, results in zip(orders, desk.run(orders), strict=True):
        for place, (number, result) in enumerate(zip(order, results, strict=True)):
            if place and result is not None:
                behind.add(number)
                if not same(found[number], result):
                    suspects.setdefault(number, (order[:place], result))
    if suspects:
        blame(desk, suspects, found, declared=desk.options.expect_declared and desk.info.declares == SLUG)
    return len(behind), list(suspects)
