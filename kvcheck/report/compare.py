"""Two reports held against each other, case by case: what got worse, better, other bytes, more or fewer cases."""

from __future__ import annotations

import msgspec

from kvcheck.report import exit_codes
from kvcheck.report.outcomes import FAILING, rank
from kvcheck.report.plain import number, one_line
from kvcheck.schema import CaseResult, Outcome, Report

#: Facts of a report that explain why codes may differ.
_ENVIRONMENT = ("gpu", "driver", "cuda", "torch", "triton", "fp_fusion")


class Change(msgspec.Struct, frozen=True):
    """A case that is in both reports and ended otherwise, or in one of them alone: then the other side is None."""

    id: str
    before: CaseResult | None
    after: CaseResult | None
    why: str


class Comparison(msgspec.Struct, frozen=True):
    """What changed from one report to another."""

    worse: tuple[Change, ...]
    """Outcomes that got worse, passes that compare fewer codes, and new cases that fail."""
    missing: tuple[Change, ...]
    """Cases that only the first report has."""
    better: tuple[Change, ...]
    bytes_changed: tuple[Change, ...]
    """Cases with the same outcome and another digest."""
    added: tuple[Change, ...]
    """Cases that only the second report has, and that do not fail."""
    same: int
    """Cases that ended alike, with the same bytes."""
    uncompiled: tuple[str, ...]
    """Kernels that do not compile for their arch in the second report, and did or were not tried in the first."""
    facts: tuple[str, ...]
    """What differs between the reports themselves: target, kernels, contract, arch, environment."""

    @property
    def exit_code(self) -> int:
        """1 where something got worse, 3 where cases are missing, else 0."""
        if self.worse or self.uncompiled:
            return exit_codes.FAILED
        return exit_codes.INCONCLUSIVE if self.missing else exit_codes.PASSED


def compare(before: Report, after: Report) -> Comparison:
    """Hold `after` against `before`. A case's id says which case it is, on every machine and for every target."""
    old, new = ({case.id: case for case in report.cases} for report in (before, after))
    worse: list[Change] = []
    better: list[Change] = []
    changed: list[Change] = []
    added: list[Change] = []
    same = 0
    for identifier, case in new.items():
        earlier = old.get(identifier)
        if earlier is None:
            into = worse if case.outcome in FAILING else added
            into.append(Change(identifier, None, case, f"new, {case.outcome}"))
            continue
        change = _change(earlier, case)
        if change is None:
            same += 1
        elif change[0] > 0:
            worse.append(Change(identifier, earlier, case, change[1]))
        elif change[0] < 0:
            better.append(Change(identifier, earlier, case, change[1]))
        else:
            changed.append(Change(identifier, earlier, case, change[1]))
    gone = [Change(name, case, None, f"missing, was {case.outcome}") for name, case in old.items() if name not in new]
    return Comparison(
        _worst_first(worse),
        tuple(gone),
        tuple(better),
        tuple(changed),
        tuple(added),
        same,
        _uncompiled(before, after),
        _facts(before, after),
    )


def _change(before: CaseResult, after: CaseResult) -> tuple[int, str] | None:
    """How a case changed: above zero for the worse, below for the better, zero for other bytes; None where it did not.

    A pass over fewer codes than before is worse: nothing failed because less was looked at.
    """
    if before.outcome != after.outcome:
        return rank(before.outcome) - rank(after.outcome), f"{before.outcome} → {after.outcome}"
    fewer = before.codes.compared - after.codes.compared
    if fewer:
        weight = fewer if after.outcome == "pass" else 0
        return weight, f"{after.outcome}, compares {after.codes.compared} codes, was {before.codes.compared}"
    if before.digest is not None and after.digest is not None and before.digest != after.digest:
        what = [name for name in ("codes", "scales") if getattr(before.digest, name) != getattr(after.digest, name)]
        return 0, f"{after.outcome}, other {' and '.join(what)}"
    if (before.digest is None) != (after.digest is None):
        return 0, f"{after.outcome}, {'no digest any more' if after.digest is None else 'a digest now'}"
    return None


def _uncompiled(before: Report, after: Report) -> tuple[str, ...]:
    """The kernels that no longer compile, each with what the compiler says."""
    known = {(fact.arch, fact.kernel) for fact in before.compiled if fact.outcome == "failed"}
    return tuple(
        f"{one_line(fact.kernel) or 'a kernel'} does not compile for {one_line(fact.arch)}: {one_line(fact.error)}"
        for fact in after.compiled
        if fact.outcome == "failed" and (fact.arch, fact.kernel) not in known
    )


def _worst_first(changes: list[Change]) -> tuple[Change, ...]:
    def order(change: Change) -> int:
        outcome: Outcome = change.after.outcome if change.after else "pass"
        return rank(outcome)

    return tuple(sorted(changes, key=order))


def _facts(before: Report, after: Report) -> tuple[str, ...]:
    """What differs between two reports apart from their cases, in words."""
    pairs: list[tuple[str, object, object]] = [
        ("target", before.target.name, after.target.name),
        ("kernels", before.target.kernels_sha256[:12], after.target.kernels_sha256[:12]),
        ("version", before.target.version, after.target.version),
        ("arch", before.arch, after.arch),
        ("execution", before.execution, after.execution),
        ("kvcheck", before.kvcheck, after.kvcheck),
        *((name, before.environment.get(name), after.environment.get(name)) for name in _ENVIRONMENT),
    ]
    told = [f"{name} {_value(old)} → {_value(new)}" for name, old, new in pairs if old != new]
    if (before.target.contract, before.target.form) != (after.target.contract, after.target.form):
        told.append("another contract or form")
    if after.planned != len({case.id for case in after.cases}):
        told.append(f"the second holds {len(after.cases)} of {number(after.planned, 'planned case')}")
    return tuple(told)


def _value(value: object) -> str:
    return "none" if value is None else one_line(str(value))
