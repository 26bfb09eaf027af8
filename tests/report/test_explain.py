"""One case explained from its report."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.cli.main import run
from kvcheck.contract import LoadContract
from kvcheck.errors import ReportError
from kvcheck.report.drawing import Drawing, Row
from kvcheck.report.explain import emission, explain, pick, text
from kvcheck.report.write import write
from kvcheck.schema import CodesVerdict

from .samples import CRASH, FIRST, PASS, SEED, SIBLING, TARGET, report

DRAWN = msgspec.structs.replace(
    SIBLING, evidence={"strides_used": [1152, 128, 1], "strides_declared": [384, 128, 1]}
)  # fmt: skip
CASE = msgspec.structs.replace(SEED, diagnosis=(DRAWN,))


def test_a_drawing_is_to_scale() -> None:
    """72 elements in 72 columns; token 1 is read 12 elements late, and its row's end lies outside the tensor."""
    rows = (Row(0, 0, 30), Row(1, 30, 60))
    drawn = text(Drawing("v", 60, rows, (Row(0, 0, 30), Row(1, 42, 72)), 2, 2))
    assert drawn == [
        "due     " + "0" * 30 + "1" * 30 + "." * 12,
        "read    " + "0" * 30 + "." * 12 + "1" * 30,
        "tensor  " + "=" * 60,
        "        0 to 71, the tensor's own 0 to 59",
    ]


def test_rows_that_overlap_and_rows_before_the_tensor_are_drawn() -> None:
    """Token 1 is read from 12 elements before the tensor on, over half of token 0."""
    drawn = text(Drawing("v", 60, (Row(0, 0, 30), Row(1, 30, 60)), (Row(0, 0, 30), Row(1, -12, 18)), 2, 2))
    assert drawn[1] == "read    " + "1" * 12 + "*" * 18 + "0" * 12 + "." * 30
    assert drawn[2] == "tensor  " + " " * 12 + "=" * 60


def test_a_failing_case_is_told_whole() -> None:
    """The original fault: its sentence, its addresses, its code's arithmetic, and a test that would have passed it."""
    told = explain(report(CASE), CASE, None)
    for line in (
        "3fa9c1: mismatch, specimen:shared-pitch, sm_90",
        "  V is read with K's pitch: 1152 elements from row to row instead of 384.",
        "  token 1: due 384 to 767, read 1152 to 1535",
        "  and 3 more rows",
        "    got  0x7E = 448, which under this scale stands for 0.00978851318 instead of 0.00341796875",
        "  V: 0.042, would have passed; 2684 of its codes are wrong",
        "From the report alone. What the case stored was not kept.",
    ):
        assert line in told.splitlines()
    assert told.endswith("--select 3fa9c1 --out repeat\n")


def test_what_a_case_has_not_is_left_out() -> None:
    """A crash has no codes, no drawing and no tolerance; a pass says what was judged."""
    crash = explain(report(CRASH), CRASH, None)
    assert "What happened" in crash
    assert not any(word in crash for word in ("Memory", "first wrong code", "tolerance"))
    assert "Every byte that was judged is right." in explain(report(PASS), PASS, None)
    empty = msgspec.structs.replace(PASS, codes=CodesVerdict())
    assert "No code was due" in explain(report(empty), empty, None)


def test_a_load_targets_code_has_no_arithmetic_of_a_stores() -> None:
    """What a load writes are values, not codes."""
    case = msgspec.structs.replace(CASE, codes=CodesVerdict(compared=1, wrong=1, first=FIRST))
    load = report(case, target=msgspec.structs.replace(TARGET, kind="load", contract=LoadContract()))
    assert "due  0x" not in explain(load, case, None)


def test_a_figure_that_is_not_finite_is_no_answer() -> None:
    """Neither passed nor failed."""
    case = msgspec.structs.replace(CASE, tolerance=CRASH.tolerance)
    assert "V: not finite, no answer" in explain(report(case), case, None)


def test_a_case_is_found_by_the_begin_of_its_id() -> None:
    """The whole id goes before longer ones; none and several are errors of one line."""
    longer = msgspec.structs.replace(PASS, id=f"{PASS.id}99")
    found = [(Path("a"), report(PASS, longer, CASE)), (Path("b"), report(CASE))]
    assert pick(found[:1], "3f", None)[2] == CASE
    assert pick(found, PASS.id, TARGET.name)[2] == PASS
    with pytest.raises(ReportError, match="ambiguous: 3fa9c1 in a, 3fa9c1 in b; expected a longer id"):
        pick(found, "3f", None)
    with pytest.raises(ReportError, match="in none of the 2 reports of target other read"):
        pick(found, "3f", "other")


def test_the_command_reads_a_folder_and_the_emission_beside_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same text as its function makes; bad ids are one line and exit 2."""
    file = write(report(CASE), tmp_path).json
    kept = file.parent / "cases" / "3fa9c1.msgpack"
    assert emission(file, CASE) is None
    kept.parent.mkdir()
    kept.write_bytes(b"")
    assert emission(file, CASE) == emission(file.parent, CASE) == kept
    assert run(["explain", "3fa", "--report", str(tmp_path)]) == 0
    assert capfd.readouterr().out == explain(report(CASE), CASE, kept)
    assert run(["explain", "zz", "--report", str(tmp_path)]) == 2
    said = capfd.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
