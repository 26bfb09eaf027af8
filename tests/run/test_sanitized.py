"""What a witness saw, joined to the verdict; and the command on the CPU, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.kernels import store
from kvcheck.run.result import not_run
from kvcheck.run.sanitized import with_runs
from kvcheck.sanitizer.sentence import sentence
from kvcheck.schema import Case, CaseResult, Outcome, SanitizerRecord, SanitizerRun

from .command import SEED, kvcheck, reports_in

RECORD = SanitizerRecord("shadow", "gap", "reads between the rows of K", file="/kernels/one.py", line=7, count=3)
BARE = SanitizerRecord("memcheck", "leak", "16 bytes leaked")
FOUND = SanitizerRun("shadow", "arena", "interpreted", "records", records=(RECORD, BARE), counted=4)
CLEAN = SanitizerRun("initcheck", "pooled", "replay", "clean")
DOUBT = SanitizerRun("memcheck", "exact", "replay", "inconclusive", "it printed no summary")


def result(outcome: Outcome) -> CaseResult:
    """A case that ended so."""
    return not_run(Case(), outcome, "" if outcome == "pass" else "as before")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pass", "violation"), ("inconclusive", "violation"), ("refused", "violation"), ("violation", "violation"),
        ("mismatch", "mismatch"), ("crash", "crash"), ("timeout", "timeout"),
    ],
)  # fmt: skip
def test_records_are_a_violation_unless_the_bytes_say_worse(before: Outcome, after: Outcome) -> None:
    """The witness never makes an outcome better; what it saw stands in the result whatever the outcome."""
    found = with_runs(result(before), (CLEAN, FOUND))
    assert found.outcome == after
    assert found.sanitized == (CLEAN, FOUND)
    assert found.sanitizer == (sentence(RECORD), sentence(BARE))
    changed = after != before
    assert found.reason == (sentence(RECORD) if changed else "as before")


@pytest.mark.parametrize(("before", "after"), [("pass", "inconclusive"), ("mismatch", "mismatch"), ("crash", "crash")])
def test_a_doubt_makes_a_pass_inconclusive(before: Outcome, after: Outcome) -> None:
    """A tool that was not seen to look vouches for nothing, and takes nothing back."""
    found = with_runs(result(before), (CLEAN, DOUBT))
    assert found.outcome == after
    assert found.sanitizer == ()
    assert ("it printed no summary" in found.reason) == (before == "pass")


def test_clean_runs_leave_a_pass() -> None:
    """All tools looked and saw nothing."""
    found = with_runs(result("pass"), (CLEAN,))
    assert (found.outcome, found.reason, found.sanitized) == ("pass", "", (CLEAN,))


def test_sentences() -> None:
    """Tool, line, what, how often, source: each where it is known."""
    assert sentence(RECORD) == "shadow: one.py:7 reads between the rows of K, 3 accesses"
    assert sentence(msgspec.structs.replace(RECORD, count=1, source="tl.load(x)")) == (
        "shadow: one.py:7 reads between the rows of K: tl.load(x)"
    )
    assert sentence(BARE) == "memcheck: 16 bytes leaked"


def line_of(text: str) -> int:
    """The one line of the store kernel's file that begins so."""
    lines = Path(store.__file__).read_text(encoding="utf-8").splitlines()
    (line,) = (number for number, each in enumerate(lines, 1) if each.strip().startswith(text))
    return line


def test_the_case_that_kvcheck_grew_from(tmp_path: Path) -> None:
    """The codes say mismatch and name the pitch; shadow memory says the line, and that it lies past V's end."""
    ran = kvcheck(
        "sanitize", SEED, "--target", "specimen:shared-pitch", "--select", "bf11ca0347", "--device", "cpu",
        "--out", tmp_path,
    )  # fmt: skip
    assert ran.code == 1
    (report,) = reports_in(tmp_path).values()
    assert (report.execution, report.environment["sanitizer"]) == ("interpreted", "shadow memory")
    (case,) = report.cases
    assert (case.outcome, case.diagnosis[0].fault) == ("mismatch", "sibling-pitch")
    (run,) = case.sanitized
    (record,) = run.records
    assert (run.way, run.state, record.tensor, record.side) == ("interpreted", "records", "v", "after")
    assert record.line == line_of("value = tl.load(row + heads * source_head")
    assert f"store.py:{record.line} reads" in ran.out
    assert run.agreement == "shadow and the codes name the same rows: V at pitch 1152"


def test_a_right_kernel_passes(tmp_path: Path) -> None:
    """Exit 0, and every case says that it was watched."""
    ran = kvcheck("sanitize", SEED, "--select", "k_view=qkv,layout=pooled", "--device", "cpu", "--out", tmp_path)
    assert ran.code == 0, ran.out
    (report,) = reports_in(tmp_path).values()
    assert report.summary == {"pass": len(report.cases)}
    assert [[run.state for run in case.sanitized] for case in report.cases] == [["clean"]] * len(report.cases)


def test_what_could_not_be_watched_is_never_clean(tmp_path: Path) -> None:
    """A byte of torch's, which the judge condemns, and of which shadow memory says that it saw nobody store it."""
    target = Path(__file__).parents[1] / "sanitizer" / "shadow" / "targets" / "doubtful.py"
    ran = kvcheck("sanitize", SEED, "--target", f"{target}::by-torch", "--select", "bf11ca0347", "--out", tmp_path)
    (report,) = reports_in(tmp_path).values()
    (case,) = report.cases
    assert (ran.code, case.outcome, case.sanitized[0].state) == (1, "mismatch", "inconclusive")
    assert "no Triton kernel was seen to store" in case.sanitized[0].reason
