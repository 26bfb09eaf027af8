"""Whether a run failed, or compared nothing, for what its matrix holds alone: then a word on limits helps more."""

from __future__ import annotations

import re

from kvcheck.report import axes
from kvcheck.report.axes import Value
from kvcheck.report.groups import group_failures
from kvcheck.report.plain import number, one_line
from kvcheck.report.traces import raised
from kvcheck.schema import CaseResult, Report

#: The axes that kernels are limited in most, and the two of them that often have to be powers of two.
_AXES = ("heads", "head_dim", "dtype")
_SIZES = ("heads", "head_dim")
#: What cases are told that are outside what their target declares.
_DECLARED = "takes "
#: Errors that no input is the cause of: the adapter's own slips, what an arch lacks, an access that is a fault.
_NO_LIMIT = re.compile(r"\A(?:NameError|AttributeError|ImportError|ModuleNotFoundError|TypeError)\b")
_NO_INPUT = re.compile(r"architecture|fp8e|CUDA error|illegal|out of memory", re.IGNORECASE)


def limits(report: Report) -> list[str]:
    """A line where no case was compared because all raised alike, or all are outside what is declared; else none.

    It says which heads, head_dim and dtype all those cases have, if any: no more is known of the cause.
    """
    if not report.cases or any(case.codes.compared for case in report.cases):
        return []
    crashed = [case for case in report.cases if case.outcome == "crash"]
    aside = [case for case in report.cases if case.outcome in ("unsupported", "refused")]
    if len(crashed) + len(aside) < len(report.cases):
        return []
    if not crashed:
        return [_outside(aside)] if all(case.reason.startswith(_DECLARED) for case in aside) else []
    shared = _shared(crashed)
    if len(group_failures(report)) > 1 or not shared or not _may_be_a_limit(crashed[0]):
        return []
    had = f"{axes.in_words(shared)}{_odd(shared)}"
    says = "what an engine documents not to take belongs in accepts= or refuses=, and a matrix without it is needed;"
    alike = " alike" if len(crashed) > 1 else ""
    return [f"{_all(len(crashed))} raised{alike}, with {had}: {says} what it does not is a fault."]


def _outside(cases: list[CaseResult]) -> str:
    """What all cases have that are outside what the target declares."""
    shared = _shared(cases)
    having = f", with {axes.in_words(shared)}" if shared else ""
    return (
        f"{_all(len(cases))} {'is' if len(cases) == 1 else 'are'} outside what the target declares{having}: a matrix "
        "file of your own can have, as [fixed] or [axes], what it takes."
    )


def _all(count: int) -> str:
    return "The one case" if count == 1 else f"All {number(count, 'case')}"


def _shared(cases: list[CaseResult]) -> dict[str, Value]:
    """The values that all these cases have, of those axes."""
    every = [axes.complete(case) for case in cases]
    return {name: every[0][name] for name in _AXES if len({str(each[name]) for each in every}) == 1}


def _odd(shared: dict[str, Value]) -> str:
    """Which of the sizes are no powers of two: what kernels' blocks often have to be."""
    odd = [name for name in _SIZES if isinstance(size := shared.get(name), int) and size & (size - 1)]
    return f" ({' and '.join(odd)} no {'powers' if len(odd) > 1 else 'power'} of two)" if odd else ""


def _may_be_a_limit(case: CaseResult) -> bool:
    """Whether what a case raised could be a size or a dtype that the kernel does not take."""
    said = one_line(raised(case.process.error))
    return case.process.signal is None and not _NO_LIMIT.match(said) and not _NO_INPUT.search(said + case.reason)
