"""`kvcheck report`, `compare` and `merge`, as a user types them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from report.samples import COMMAND, PASS, SEED, report

from kvcheck.cli.main import run
from kvcheck.report.junit import junit
from kvcheck.report.markdown import markdown
from kvcheck.report.read import read
from kvcheck.report.write import write


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """A folder with a good report in `a`, a bad one in `b`, and two shards."""
    other = msgspec.structs.replace(PASS, id="2")
    write(report(PASS, other), tmp_path / "a")
    write(report(msgspec.structs.replace(SEED, id=PASS.id), other), tmp_path / "b")
    for number, case in enumerate((PASS, other), 1):
        write(report(case, command=f"{COMMAND} --shard {number}/2"), tmp_path / f"s{number}")
    return tmp_path


def test_a_report_is_shown_in_every_form(reports: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The same bytes as its function makes, whatever the report says: exit status 0."""
    made = read(next((reports / "b").rglob("report.json")))
    for form, wanted in (("markdown", markdown(made).encode()), ("junit", junit([made]))):
        assert run(["report", str(reports / "b"), "--to", form]) == 0
        assert capfdbinary.readouterr().out == wanted
    assert run(["report", str(reports / "b"), "--to", "html"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"<!DOCTYPE html>")
    assert run(["report", str(reports / "b"), "--to", "github"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"::error title=kvcheck")
    assert run(["report", str(reports / "b")]) == 0
    assert b"1 of 2 cases failed" in capfdbinary.readouterr().out


def test_a_report_is_written_to_a_file(reports: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Nothing is printed; the terminal's form has no colours there."""
    for form in ("terminal", "html"):
        file = reports / f"out.{form}"
        assert run(["report", str(reports / "a"), str(reports / "b"), "--to", form, "-o", str(file)]) == 0
        assert b"all 2 cases passed" in file.read_bytes()
        assert b"\x1b" not in file.read_bytes()
    assert capfdbinary.readouterr().out == b""


def test_comparing_tells_what_got_worse(reports: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit status 1 where something did, 0 the other way round, 3 where cases are missing."""
    a, b, shard = (str(next((reports / name).rglob("report.json"))) for name in ("a", "b", "s1"))
    assert run(["compare", a, b]) == 1
    assert "pass → mismatch  a1b2c3" in capfd.readouterr().out
    assert run(["compare", b, a]) == 0
    assert run(["compare", a, a]) == 0
    assert run(["compare", a, shard]) == 3


def test_merging_shards_gives_the_whole_report(reports: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit status 0 with both; 3 with one, which is said; 1 where they disagree for the worse."""
    out = reports / "m"
    assert run(["merge", str(reports / "s1"), str(reports / "s2"), "--out", str(out)]) == 0
    assert "all 2 cases passed" in capfd.readouterr().out
    assert next(out.rglob("report.md")).is_file()
    assert run(["merge", str(reports / "s1"), "--out", str(out)]) == 3
    assert "shard 2/2 missing" in capfd.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["report", "nowhere"], ["compare", "nowhere", "nowhere"], ["merge", "nowhere"], ["merge"]]
)
def test_bad_input_is_one_line_and_exit_2(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What, where, what was expected; no traceback."""
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    error = capfd.readouterr().err
    assert "Traceback" not in error
    assert "nowhere: no such file or folder; expected a report.json" in error or "Missing argument" in error
