"""The sentences of a report about the run as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from kvcheck.report import exercised, outcomes
from kvcheck.report.division import division
from kvcheck.report.equal_inputs import equal_inputs
from kvcheck.report.exit_codes import does_not_compile, fails, ran
from kvcheck.report.limits import limits
from kvcheck.report.plain import number, one_line
from kvcheck.schema import Outcome, Report


def execution(report: Report) -> str:
    """Where and how the kernels ran, in plain words."""
    arch = one_line(report.arch)
    gpu = one_line(str(report.environment.get("gpu") or "a GPU without a name"))
    if report.execution == "native":
        return f"natively on {gpu} ({arch})"
    if report.execution == "lowered":
        own = report.environment.get("arch")
        return f"with {arch}'s code generation, run on {gpu}{f' ({one_line(str(own))})' if own else ''}"
    if report.execution == "interpreted":
        return f"in Triton's interpreter on the CPU (for {arch})"
    return "on the CPU, without a GPU kernel"


def versions(report: Report) -> str:
    """The versions of torch and triton; what was not recorded is left out."""
    known = [(name, report.environment.get(name)) for name in ("torch", "triton")]
    return ", ".join(f"{name} {one_line(str(version))}" for name, version in known if version)


def compared(report: Report) -> int:
    """The number of cases in which at least one code was compared."""
    return sum(case.codes.compared > 0 for case in report.cases)


def result(report: Report, *, strict: bool = False) -> str:
    """How the run ended, in a few words: what is worst is said."""
    cases = ran(report)
    failed = sum(fails(case, strict=strict) for case in report.cases)
    if failed:
        return f"{failed} of {number(cases, 'case')} failed"
    if does_not_compile(report):
        return f"{number(cases, 'case')} ran, none failed, but a kernel does not compile"
    unjudged = _unjudged(report, cases)
    if unjudged:
        return unjudged
    if not compared(report):
        return "nothing was compared"
    return _good(cases, report.summary.get("pass", 0), report.summary.get("xfail", 0))


def _unjudged(report: Report, cases: int) -> str:
    """What is missing of a run in which nothing failed; empty where nothing is."""
    inconclusive = report.summary.get("inconclusive", 0)
    if cases < report.planned:
        return f"{report.planned - cases} of {number(report.planned, 'planned case')} missing, none failed"
    if report.missing_shards:
        return f"shard {' and '.join(report.missing_shards)} missing, none of {number(cases, 'case')} failed"
    return f"{inconclusive} of {number(cases, 'case')} inconclusive, none failed" if inconclusive else ""


def _good(cases: int, passed: int, declared: int) -> str:
    """How a run ended in which nothing failed."""
    if cases in (passed, declared):
        how = "passed" if passed else "failed as declared"
        return f"1 case {how}" if cases == 1 else f"all {cases} cases {how}"
    return (
        f"{passed} of {number(cases, 'case')} passed, {f'{declared} failed as declared' if declared else 'none failed'}"
    )


def where(report: Report) -> str:
    """How many of the planned cases there are, where and how they ran, and with which versions."""
    parts = [f"{ran(report)} of {number(report.planned, 'planned case')}", execution(report), versions(report)]
    return ", ".join(part for part in parts if part) + "."


def independence(report: Report) -> str:
    """In how many compared cases independence was judged, and why not in the others."""
    cases = [case for case in report.cases if case.codes.compared > 0]
    judged = [case for case in cases if case.independence.differs is not None]
    text = f"Independence judged in {len(judged)} of {number(len(cases), 'compared case')}."
    why = Counter(one_line(case.independence.reason) for case in cases if case.independence.differs is None)
    reasons = "; ".join(f"{reason or 'no reason given'} ({count})" for reason, count in why.most_common(3))
    more = f"; {number(len(why) - 3, 'more reason')}" if len(why) > 3 else ""
    return f"{text} Not judged: {reasons}{more}." if why else text


def uncompiled(report: Report) -> list[str]:
    """A line for each kernel that does not compile for the arch: that fails a run, whatever its cases did."""
    return [
        f"compile-failure: {one_line(fact.kernel) or 'a kernel'} does not compile for {one_line(fact.arch)}: "
        f"{one_line(fact.error)}"
        for fact in report.compiled
        if fact.outcome == "failed"
    ]


def compiled(report: Report) -> list[str]:
    """What the compiler made of the kernels that compile: one line; none where none was compiled."""
    lines = []
    right = [fact for fact in report.compiled if fact.outcome == "compiled"]
    if right:
        names = ", ".join(dict.fromkeys(one_line(fact.kernel) for fact in right))
        casts = sorted({name for fact in right for name in fact.casts})
        divisions = sorted({name for fact in right for name in fact.divisions})
        casts_said, divisions_said = ", ".join(casts) or "nothing", ", ".join(divisions) or "nothing"
        lines.append(
            f"Compiled for {one_line(right[0].arch)}: {names}; casts by {casts_said}, divides by {divisions_said}."
        )
    return lines


def notes(report: Report, *, strict: bool = False) -> list[str]:
    """What is neither a failure nor nothing: independence not judged, legal codes, copies, unsteady verdicts."""
    lines = [independence(report)] if compared(report) else limits(report)
    empty = sum(case.outcome == "pass" and not case.codes.compared for case in report.cases)
    if empty:
        lines.append(
            f"In {number(empty, 'passing case')} no code was due: they show only that nothing else was touched."
        )
    legal = [case for case in report.cases if case.codes.legal or case.scales.legal]
    if legal:
        codes = sum(case.codes.legal for case in legal)
        scales = sum(case.scales.legal for case in legal)
        parts = [number(count, noun) for count, noun in ((codes, "code"), (scales, "scale")) if count]
        says = "; --strict fails on them" if strict else ""
        lines.append(
            f"Not exact, but within the declared error: {' and '.join(parts)} in {number(len(legal), 'case')}{says}."
        )
    if strict and report.summary.get("refused"):
        lines.append(f"{number(report.summary['refused'], 'case')} refused; --strict fails on them.")
    copied = Counter((one_line(copy.tensor), one_line(copy.operator)) for case in report.cases for copy in case.copies)
    if copied:
        what = ", ".join(
            f"{tensor} by {operator} in {number(n, 'case')}" for (tensor, operator), n in copied.most_common(4)
        )
        lines.append(f"The target copies {what}{', and more' if len(copied) > 4 else ''}.")
    lines += compiled(report) + division(report)
    lines += together(report)
    lines += _equal_inputs(report)
    unsteady = [case for case in report.cases if case.cold_confirmed is False]
    if unsteady:
        lines.append(
            f"The verdict changed in a fresh interpreter in {number(len(unsteady), 'case')}; first: {unsteady[0].id}."
        )
    return lines


def together(report: Report) -> list[str]:
    """What came of cases run several to one process; why nothing did; nothing where it was not asked."""
    ran = [found for found in report.together if found.cases]
    lines = []
    if ran:
        cases, processes = sum(found.cases for found in ran), sum(found.processes for found in ran)
        seconds = sum(found.seconds for found in ran)
        unlike = [identifier for found in ran for identifier in found.unlike]
        ended = f"{len(unlike)} ended otherwise; first: {one_line(unlike[0])}" if unlike else "all left the same bytes"
        lines.append(
            f"{number(cases, 'passing case')} also ran behind others, in {number(processes, 'process', 'processes')} "
            f"of several and shuffled order ({seconds:.1f} s): {ended}."
        )
    why = dict.fromkeys(one_line(found.not_run) for found in report.together if not found.cases)
    return [*lines, *(f"No cases were run several to one process: {reason}." for reason in why)]


def _equal_inputs(report: Report) -> list[str]:
    """Whether passing cases of the same input left the same bytes; nothing where none share an input."""
    found = equal_inputs(report)
    if not found.cases:
        return []
    text = f"{number(found.cases, 'passing case')} share their inputs with another, in other views or layouts"
    if not found.unlike:
        return [f"{text}: all left the same bytes."]
    one, other = found.unlike[0]
    return [
        f"{text}; {number(len(found.unlike), 'input')} gave unlike bytes, all of them right; first: {one}, {other}."
    ]


def unobservable(report: Report) -> str:
    """The faults that no case rules out: in each, some form of them would have hidden."""
    if not report.faults:
        return "Which faults these cases could have shown was not computed."
    if not report.unobservable:
        return f"Each of the {len(report.faults)} known faults was observable in at least one case."
    if len(report.unobservable) == len(report.faults):
        return f"No case rules out any of the {len(report.faults)} known faults."
    names = ", ".join(one_line(fault) for fault in report.unobservable)
    return f"No case rules out {len(report.unobservable)} of {len(report.faults)} faults: {names}."


def unexercised(report: Report, but: Collection[str] = ()) -> list[str]:
    """What this matrix did not exercise, so that a fault there would have passed unseen; empty where nothing.

    `but` leaves out what is said elsewhere.
    """
    found = exercised.unexercised(report)
    if not compared(report):
        return []
    never = [phrase for phrase in found.never if phrase not in but]
    lines = [_never(never)] if never else []
    if found.uncompared:
        told = (f"{phrase} ({_ended(ended)})" for phrase, ended in found.uncompared.items())
        lines.append(f"Only in cases that were not compared: {'; '.join(told)}.")
    return lines


def unexercised_by_all(reports: Sequence[Report]) -> tuple[str, list[str]]:
    """What no report's matrix exercised, as a sentence, and as phrases to leave out of theirs. Empty for one report."""
    every = [exercised.unexercised(report).never for report in reports if compared(report)]
    common = [phrase for phrase in every[0] if all(phrase in never for never in every)] if len(every) > 1 else []
    return (_never(common) if common else ""), common


def _never(phrases: Sequence[str]) -> str:
    return f"This matrix did not exercise: {'; '.join(phrases)}."


def _ended(ended: dict[str, int]) -> str:
    return ", ".join(f"{ended[outcome]} {outcome}" for outcome in outcomes.ORDER if outcome in ended)


def table(report: Report) -> list[tuple[Outcome, int, str]]:
    """Outcome, cases and meaning, worst first."""
    return [(name, report.summary[name], outcomes.MEANINGS[name]) for name in outcomes.ORDER if name in report.summary]
