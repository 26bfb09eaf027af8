"""Grouping failures by what they share."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.report.groups import Reason, group_failures, group_reasons
from kvcheck.report.outcomes import FAILING
from kvcheck.schema import CaseResult, CodesVerdict, ProcessVerdict

from .samples import (
    CRASH,
    EVERY,
    INCONCLUSIVE,
    NAMELESS,
    PASS,
    QKV,
    REFUSED,
    SEED,
    SEGFAULT,
    TIMEOUT,
    UNSUPPORTED,
    XFAIL,
    report,
)


def changed(case: CaseResult, identifier: str, **axes: str | int) -> CaseResult:
    """A case with another id and some other axes."""
    return msgspec.structs.replace(case, id=identifier, axes={**case.axes, **axes})


def test_failures_that_share_a_fault_are_one_group() -> None:
    """The smallest member is the example; what all share and not all cases have stands apart from what is mixed."""
    made = report(PASS, changed(SEED, "3fa000", tokens=33), changed(PASS, "a1b2c4", tokens=33), SEED)
    (group,) = group_failures(made)
    assert (group.outcome, group.channels, group.cause) == ("mismatch", ("codes",), "sibling-pitch in V")
    assert [case.id for case in group.members] == ["3fa9c1", "3fa000"]
    assert group.example is SEED
    assert group.shared == QKV
    assert group.counts == {"tokens": {"8": (1, 2), "33": (1, 2)}}
    assert group.repeat == "kvcheck matrix --target specimen:shared-pitch --arch sm_90 --select 3fa9c1 --out repeat"


def test_the_smallest_id_breaks_a_tie_of_sizes() -> None:
    """Of cases of equal size the example is the one with the smallest id, in whatever order they came."""
    (group,) = group_failures(report(changed(SEED, "ffff"), changed(SEED, "0001"), changed(SEED, "0000", heads=4)))
    assert [case.id for case in group.members] == ["0001", "ffff", "0000"]


def test_what_every_case_of_the_report_has_is_no_news() -> None:
    """Where all cases fail alike no axis is shared by the failing ones alone."""
    (group,) = group_failures(report(SEED))
    assert group.shared == {}
    assert group.counts == {}


def test_shared_axes_begin_with_the_rarest() -> None:
    """An axis value that only the failing cases have comes before one that passing cases have too."""
    dense = changed(PASS, "01", k_view="dense", layout="pooled", dtype="fp16")
    made = report(SEED, changed(PASS, "02", k_view="qkv"), changed(PASS, "03", k_view="qkv"), dense)
    (group,) = group_failures(made)
    assert list(group.shared) == ["k_values", "v_values", "k_view", "dtype", "layout"]


def test_a_head_dim_of_v_that_follows_is_told_once() -> None:
    """`head_dim_v` is news only where it is not head_dim."""
    (group,) = group_failures(report(PASS, changed(SEED, "01", head_dim=64)))
    assert group.shared == {**QKV, "head_dim": 64}
    (group,) = group_failures(report(PASS, changed(SEED, "01", head_dim_v=64)))
    assert group.shared == {**QKV, "head_dim_v": 64}


def test_an_axis_of_a_newer_version_counts_as_default_where_it_is_missing() -> None:
    """A report read back may have axes that this version does not know."""
    (group,) = group_failures(report(PASS, changed(SEED, "01", stream="side"), SEED))
    assert group.counts == {"stream": {"default": (1, 2), "side": (1, 1)}}


def test_groups_come_worst_first_then_largest() -> None:
    """Outcome, then the number of members, then the cause."""
    found = group_failures(report(*EVERY, NAMELESS, changed(SEED, "3fb"), changed(SEGFAULT, "dead02")))
    assert [(group.outcome, group.cause, len(group.members)) for group in found] == [
        ("crash", "SIGSEGV", 2),
        ("crash", "CompilationError", 1),
        ("timeout", "", 1),
        ("mismatch", "sibling-pitch in V", 2),
        ("mismatch", "codes of V", 1),
        ("xpass", "", 1),
        ("violation", "", 1),
    ]


def test_crashes_meet_by_their_last_line_without_its_numbers() -> None:
    """Two illegal addresses are one cause; another sentence of the same exception is another."""

    def crash(identifier: str, said: str) -> CaseResult:
        return msgspec.structs.replace(CRASH, id=identifier, process=ProcessVerdict(exit=1, error=f"  x\n{said}\n"))

    cases = [
        crash("1", "RuntimeError: bad address 0x7f01 of 12"),
        crash("2", "RuntimeError: bad address 0x9a of 4"),
        crash("3", "RuntimeError: no memory"),
        crash("4", "KeyError"),
        crash("5", "Segmentation fault (core dumped)"),
    ]
    found = group_failures(report(*cases))
    assert [(group.cause, [case.id for case in group.members]) for group in found] == [
        ("RuntimeError", ["1", "2"]),
        ("", ["5"]),
        ("KeyError", ["4"]),
        ("RuntimeError", ["3"]),
    ]


def test_a_diagnosed_crash_goes_by_its_fault() -> None:
    """A diagnosis names the group even where the process died; a fault without a tensor stands alone."""
    fault = msgspec.structs.replace(SEED.diagnosis[0], fault="compile-failure", tensor="")
    other = msgspec.structs.replace(fault, fault="stray-write", tensor="k_codes")
    made = report(
        msgspec.structs.replace(CRASH, diagnosis=(fault,)), msgspec.structs.replace(TIMEOUT, diagnosis=(other,))
    )
    assert [group.cause for group in group_failures(made)] == ["compile-failure", "stray-write in k_codes"]


def test_wrong_codes_without_a_diagnosis_go_by_their_tensors() -> None:
    """K, V, both, or neither where the verdict does not say."""

    def wrong(identifier: str, k: int, v: int, both: int) -> CaseResult:
        codes = CodesVerdict(6144, wrong=both, k_wrong=k, v_wrong=v)
        return msgspec.structs.replace(NAMELESS, id=identifier, codes=codes)

    found = group_failures(report(wrong("1", 1, 0, 1), wrong("2", 0, 1, 1), wrong("3", 1, 1, 2), wrong("4", 0, 0, 1)))
    assert [group.cause for group in found] == ["", "codes of K", "codes of K and V", "codes of V"]


@given(st.lists(st.sampled_from(EVERY), max_size=12))
def test_every_case_is_in_one_group_or_reason_or_passes(cases: list[CaseResult]) -> None:
    """No case is lost between the lists, and no failure is told as a reason."""
    made = report(*cases)
    failing = sorted(case.id for group in group_failures(made) for case in group.members)
    assert failing == sorted(case.id for case in cases if case.outcome in FAILING)
    told = sum(reason.count for reason in group_reasons(made))
    assert len(failing) + told + made.summary.get("pass", 0) == len(cases)
    assert not {reason.outcome for reason in group_reasons(made)} & {*FAILING, "pass"}


def test_reasons_are_told_by_outcome_and_count() -> None:
    """Cases that were not judged go by their reasons, cases that failed as declared by their fault."""
    silent = msgspec.structs.replace(INCONCLUSIVE, id="2", reason="", process=ProcessVerdict())
    spoke = msgspec.structs.replace(silent, id="3", process=ProcessVerdict(error="one\ntwo\n"))
    odd = msgspec.structs.replace(XFAIL, id="4", diagnosis=(), reason="declared")
    made = report(PASS, XFAIL, odd, UNSUPPORTED, changed(UNSUPPORTED, "5e7a12"), REFUSED, silent, spoke, SEED)
    assert group_reasons(made) == (
        Reason("inconclusive", "no reason given", 1, "2"),
        Reason("inconclusive", "two", 1, "3"),
        Reason("refused", "AssertionError: head_dim | 16 == 0", 1, "0ff000"),
        Reason("unsupported", "accepts inner=1; K has an inner stride of 2", 2, "5e7a11"),
        Reason("xfail", "declared", 1, "4"),
        Reason("xfail", "sibling-pitch in V", 1, "4fa110"),
    )


def bare(case: CaseResult, identifier: str, **axes: str | int) -> CaseResult:
    """A case with another id and these axes alone."""
    return msgspec.structs.replace(case, id=identifier, axes=axes)


def test_the_axes_that_decide_are_named() -> None:
    """Where two axes together tell failing cases from passing ones, the group says which values fail."""
    cases: list[CaseResult] = []
    for seed in range(4):
        for k_view in ("dense", "qkv"):
            for v_view in ("dense", "qkv"):
                kind = PASS if k_view == v_view else SEED
                cases.append(bare(kind, f"{len(cases):06x}", k_view=k_view, v_view=v_view, seed=seed))
    (group,) = group_failures(report(*cases))
    assert group.decided == "k_view,v_view is dense,qkv or qkv,dense"
    (alone,) = group_failures(report(*[case for case in cases if case.axes["k_view"] == "qkv"]))
    assert alone.decided == "v_view is dense"


def test_no_axes_decide_what_chance_could() -> None:
    """A rule needs at least two failing and two passing cases for each combination it names, and a clean split."""
    made = [bare(PASS, "0a", tokens=3), bare(SEED, "0b", tokens=4)]
    assert group_failures(report(*made))[0].decided == ""
    made = [bare(kind, f"{n:02x}", tokens=n % 2) for n, kind in enumerate([PASS, SEED] * 4 + [SEED, PASS] * 4)]
    assert group_failures(report(*made))[0].decided == ""
