"""Two reports held against each other."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.report.compare import compare
from kvcheck.report.compared import headline, line, lines
from kvcheck.schema import CaseResult, CodesVerdict, CompileFact, Digest

from .samples import CRASH, INCONCLUSIVE, PASS, REFUSED, SEED, TARGET, UNSUPPORTED, XFAIL, XPASS, report

FEWER = msgspec.structs.replace(PASS, codes=CodesVerdict(compared=6000))
OTHER = msgspec.structs.replace(PASS, digest=Digest("33" * 8, "22" * 8))


def as_case(case: CaseResult, identifier: str = "1") -> CaseResult:
    """The same result under another id."""
    return msgspec.structs.replace(case, id=identifier)


@pytest.mark.parametrize(
    ("before", "after", "kind", "why", "code"),
    [
        (PASS, SEED, "worse", "pass → mismatch", 1),
        (PASS, CRASH, "worse", "pass → crash", 1),
        (PASS, INCONCLUSIVE, "worse", "pass → inconclusive", 1),
        (PASS, UNSUPPORTED, "worse", "pass → unsupported", 1),
        (PASS, REFUSED, "worse", "pass → refused", 1),
        (XFAIL, XPASS, "worse", "xfail → xpass", 1),
        (SEED, CRASH, "worse", "mismatch → crash", 1),
        (PASS, FEWER, "worse", "pass, compares 6000 codes, was 6144", 1),
        (FEWER, PASS, "better", "pass, compares 6144 codes, was 6000", 0),
        (SEED, PASS, "better", "mismatch → pass", 0),
        (PASS, OTHER, "bytes_changed", "pass, other codes", 0),
        (
            PASS,
            msgspec.structs.replace(PASS, digest=Digest("3", "4")),
            "bytes_changed",
            "pass, other codes and scales",
            0,
        ),
        (PASS, msgspec.structs.replace(PASS, digest=None), "bytes_changed", "pass, no digest any more", 0),
        (msgspec.structs.replace(PASS, digest=None), PASS, "bytes_changed", "pass, a digest now", 0),
        (
            SEED,
            msgspec.structs.replace(SEED, codes=msgspec.structs.replace(SEED.codes, compared=6000)),
            "bytes_changed",
            "mismatch, compares 6000 codes, was 6144",
            0,
        ),
    ],
)
def test_a_case_gets_worse_better_or_other_bytes(
    before: CaseResult, after: CaseResult, kind: str, why: str, code: int
) -> None:
    """By its outcome's rank; a pass over fewer codes is worse, since less was looked at."""
    found = compare(report(as_case(before)), report(as_case(after)))
    (change,) = getattr(found, kind)
    assert (change.why, change.id, found.exit_code, found.same) == (why, "1", code, 0)
    assert sum(len(each) for each in (found.worse, found.better, found.bytes_changed, found.missing, found.added)) == 1


def test_equal_reports_are_as_before() -> None:
    """Nothing to tell, exit status 0; an empty report has nothing either."""
    found = compare(report(PASS, SEED), report(SEED, PASS))
    assert (found.same, found.exit_code, found.facts) == (2, 0, ())
    assert lines(found) == ["all 2 cases as before"]
    assert compare(report(), report()).exit_code == 0


def test_cases_of_one_report_alone() -> None:
    """A new case that fails is worse; one that is gone is missing, exit status 3; a new pass is told."""
    found = compare(report(as_case(PASS, "a")), report(as_case(SEED, "b"), as_case(PASS, "c")))
    assert [change.why for change in found.worse] == ["new, mismatch"]
    assert [change.why for change in found.missing] == ["missing, was pass"]
    assert [change.why for change in found.added] == ["new, pass"]
    assert found.exit_code == 1
    gone = compare(report(as_case(PASS, "a"), as_case(PASS, "c")), report(as_case(PASS, "c")))
    assert gone.exit_code == 3
    assert headline(gone) == "1 missing, 1 as before"


def test_the_worst_come_first_and_many_are_counted() -> None:
    """A crash before a mismatch; twenty of a kind are listed."""
    found = compare(report(as_case(PASS, "a"), as_case(PASS, "b")), report(as_case(SEED, "a"), as_case(CRASH, "b")))
    assert [change.id for change in found.worse] == ["b", "a"]
    many = [as_case(PASS, str(n)) for n in range(25)]
    told = lines(compare(report(*many), report(*[as_case(SEED, case.id) for case in many])))
    assert told[0] == "25 worse, 0 as before"
    assert told[2] == "worse, 25 cases"
    assert told[-1] == "  and 5 more"
    assert len(told) == 3 + 20 + 1


def test_a_case_is_told_with_its_axes_and_what_is_wrong() -> None:
    """What became of it, its id, its axes, the finding."""
    (change,) = compare(report(as_case(PASS)), report(as_case(SEED))).worse
    assert line(change).startswith(
        "pass → mismatch  1  k_view=qkv k_values=columns*5 v_values=columns*0.01  2684 of 3072 V codes wrong"
    )


def test_what_differs_between_the_reports_is_told() -> None:
    """Target, kernels, arch, environment; another contract; a second report that is not whole."""
    other = msgspec.structs.replace(
        TARGET, name="store", kernels_sha256="cd" * 32, contract=msgspec.structs.replace(TARGET.contract, ulps=1)
    )
    found = compare(
        report(PASS),
        report(PASS, target=other, arch="sm_89", execution="lowered", planned=2, environment={"gpu": None}),
    )
    assert found.facts == (
        "target specimen:shared-pitch → store",
        "kernels abababababab → cdcdcdcdcdcd",
        "arch sm_90 → sm_89",
        "execution native → lowered",
        "gpu NVIDIA H200 → none",
        "driver 580.65.06 → none",
        "cuda 13.0 → none",
        "torch 2.11.0 → none",
        "triton 3.6.0 → none",
        "fp_fusion True → none",
        "another contract or form",
        "the second holds 1 of 2 planned cases",
    )


def test_a_kernel_that_no_longer_compiles_is_worse() -> None:
    """Whatever its cases did in the interpreter; one that did not compile before is no news."""
    failed = CompileFact("sm_75", "store", "failed", "fp8e4nv not supported")
    good = CompileFact("sm_75", "store", "compiled")
    found = compare(report(PASS, compiled=(good,)), report(PASS, compiled=(failed,)))
    assert found.exit_code == 1
    assert lines(found) == [
        "1 kernel no longer compiling, 1 as before",
        "  store does not compile for sm_75: fp8e4nv not supported",
    ]
    assert compare(report(PASS, compiled=(failed,)), report(PASS, compiled=(failed,))).exit_code == 0
    assert compare(report(PASS, compiled=(failed,)), report(PASS, compiled=(good,))).exit_code == 0
