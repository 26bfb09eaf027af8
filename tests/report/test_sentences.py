"""The sentences about a run as a whole."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.report import sentences
from kvcheck.schema import CaseResult, CodesVerdict, Copy, IndependenceVerdict, ScalesVerdict, Together

from .samples import EVERY, H200, INCONCLUSIVE, PASS, POOLED, REFUSED, SEED, UNSUPPORTED, XFAIL, report


def again(case: CaseResult, identifier: str) -> CaseResult:
    """The same case under another id."""
    return msgspec.structs.replace(case, id=identifier)


@pytest.mark.parametrize(
    ("execution", "arch", "environment", "wanted"),
    [
        ("native", "sm_90", H200, "natively on NVIDIA H200 (sm_90)"),
        ("native", "sm_90", {}, "natively on a GPU without a name (sm_90)"),
        ("lowered", "sm_89", H200, "with sm_89's code generation, run on NVIDIA H200 (sm_90)"),
        ("lowered", "sm_89", {"gpu": "A"}, "with sm_89's code generation, run on A"),
        ("interpreted", "sm_90", {}, "in Triton's interpreter on the CPU (for sm_90)"),
        ("host", "cpu", {}, "on the CPU, without a GPU kernel"),
    ],
)
def test_executions_in_plain_words(execution: str, arch: str, environment: dict[str, str], wanted: str) -> None:
    """Which hardware ran, and which arch it ran for."""
    assert sentences.execution(report(PASS, execution=execution, arch=arch, environment=environment)) == wanted


@pytest.mark.parametrize(
    ("cases", "planned", "strict", "wanted"),
    [
        ((PASS,), 1, False, "1 case passed"),
        ((PASS, again(PASS, "2")), 2, False, "all 2 cases passed"),
        ((XFAIL,), 1, False, "1 case failed as declared"),
        ((XFAIL, again(XFAIL, "2")), 2, False, "all 2 cases failed as declared"),
        ((PASS, XFAIL), 2, False, "1 of 2 cases passed, 1 failed as declared"),
        ((PASS, REFUSED), 2, False, "1 of 2 cases passed, none failed"),
        ((PASS, REFUSED), 2, True, "1 of 2 cases failed"),
        ((PASS, POOLED), 2, False, "all 2 cases passed"),
        ((PASS, POOLED), 2, True, "1 of 2 cases failed"),
        ((PASS, INCONCLUSIVE), 2, False, "1 of 2 cases inconclusive, none failed"),
        ((PASS,), 3, False, "2 of 3 planned cases missing, none failed"),
        ((PASS, PASS), 2, False, "1 of 2 planned cases missing, none failed"),
        ((PASS, SEED, INCONCLUSIVE), 4, False, "1 of 3 cases failed"),
        ((UNSUPPORTED,), 1, False, "nothing was compared"),
        ((), 0, False, "nothing was compared"),
    ],
)
def test_how_a_run_ended(cases: tuple[CaseResult, ...], planned: int, strict: bool, wanted: str) -> None:
    """A pass is claimed only where nothing worse is true."""
    assert sentences.result(report(*cases, planned=planned), strict=strict) == wanted


def test_where_a_run_took_place() -> None:
    """Planned cases, execution and versions; versions that are not known are left out."""
    assert sentences.where(report(PASS, planned=2)) == (
        "1 of 2 planned cases, natively on NVIDIA H200 (sm_90), torch 2.11.0, triton 3.6.0."
    )
    bare = report(PASS, environment={"torch": "2.13.0"}, execution="host")
    assert sentences.where(bare) == "1 of 1 planned case, on the CPU, without a GPU kernel, torch 2.13.0."


def test_independence_that_was_not_judged_is_counted_with_its_reasons() -> None:
    """Null is not a pass: how many of the compared cases, and why not the others."""
    assert sentences.independence(report(PASS)) == "Independence judged in 1 of 1 compared case."
    assert sentences.independence(report(PASS, POOLED, UNSUPPORTED)) == (
        "Independence judged in 1 of 2 compared cases. Not judged: no poison in layout pooled (1)."
    )
    blind = [
        msgspec.structs.replace(PASS, id=str(n), independence=IndependenceVerdict(None, "abcd"[n // 2] if n else ""))
        for n in range(8)
    ]
    assert sentences.independence(report(*blind)) == (
        "Independence judged in 0 of 8 compared cases. Not judged: b (2); c (2); d (2); 2 more reasons."
    )
    assert "no reason given (1)" in sentences.independence(report(blind[0]))


def test_notes_say_what_is_neither_failure_nor_nothing() -> None:
    """Legal codes, copies, unsteady verdicts, and what --strict makes of them."""
    assert sentences.notes(report(UNSUPPORTED)) == []
    scales = msgspec.structs.replace(PASS, id="2", scales=ScalesVerdict(48, legal=1), cold_confirmed=False)
    made = report(POOLED, scales, REFUSED)
    legal = "Not exact, but within the declared error: 5 codes and 1 scale in 2 cases"
    assert sentences.notes(made)[1:] == [
        f"{legal}.",
        "The target copies v by aten.clone in 1 case.",
        "2 passing cases share their inputs with another, in other views or layouts: all left the same bytes.",
        "The verdict changed in a fresh interpreter in 1 case; first: 2.",
    ]
    strict = sentences.notes(made, strict=True)
    assert strict[1:3] == [f"{legal}; --strict fails on them.", "1 case refused; --strict fails on them."]
    copies = msgspec.structs.replace(PASS, copies=tuple(Copy("k", f"op{n}", 1) for n in range(5)))
    assert sentences.notes(report(copies))[1] == (
        "The target copies k by op0 in 1 case, k by op1 in 1 case, k by op2 in 1 case, k by op3 in 1 case, and more."
    )


def test_faults_that_no_case_could_have_shown_are_named() -> None:
    """All, some, or not computed at all."""
    assert sentences.unobservable(report(PASS)) == ("No case rules out 2 of 4 faults: index-wrap, graph-stale.")
    assert sentences.unobservable(report(msgspec.structs.replace(PASS, observable=(0, 1, 2, 3)))) == (
        "Each of the 4 known faults was observable in at least one case."
    )
    assert sentences.unobservable(report(msgspec.structs.replace(PASS, observable=()))) == (
        "No case rules out any of the 4 known faults."
    )
    assert sentences.unobservable(report(PASS, faults=())) == (
        "Which faults these cases could have shown was not computed."
    )


def test_compared_counts_cases_with_codes() -> None:
    """Cases that compared no code are not compared, whatever their outcome."""
    assert sentences.compared(report(*EVERY)) == 6
    assert [
        sentences.compared(report(msgspec.structs.replace(PASS, codes=CodesVerdict(compared=count))))
        for count in (0, 1)
    ] == [0, 1]


def test_the_table_has_every_outcome_with_its_meaning() -> None:
    """Worst first, each with its count and one plain sentence."""
    assert sentences.table(report(PASS, SEED)) == [
        ("mismatch", 1, "codes, scales or writes are wrong"),
        ("pass", 1, "every byte compared is right"),
    ]


def test_what_ran_several_to_a_process_is_told() -> None:
    """Of merged shards the sum; the first id that ended otherwise; why nothing ran; nothing where it was not asked."""
    good, bad = Together(9, 2, seconds=1.25), Together(3, 2, ("aa", "bb"), seconds=1.0)
    assert sentences.together(report(PASS)) == []
    (line,) = sentences.together(report(PASS, together=(good,)))
    assert line == (
        "9 passing cases also ran behind others, in 2 processes of several and shuffled order (1.2 s): "
        "all left the same bytes."
    )
    first, second = sentences.together(report(PASS, together=(good, bad, Together(not_run="a\nb"))))
    assert first.startswith("12 passing cases also ran behind others, in 4 processes of several")
    assert first.endswith("(2.2 s): 2 ended otherwise; first: aa.")
    assert second == "No cases were run several to one process: a b."
