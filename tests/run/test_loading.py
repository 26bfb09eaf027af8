"""Targets whose import never ends: said in one line, with the place, while the run goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kvcheck.run.hanging import place

from .command import KERNELS, matrix, start, write_matrix
from .processes import children, command_line, is_running, wait_for

HANGS = "import time\n\n\ndef lock():\n    while True:\n        time.sleep(1)\n\n\nlock()\n"
DEAF = f"import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\n{HANGS}"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """Two small cases."""
    return write_matrix(tmp_path / "cases.toml", tokens=[2, 3], heads=1, head_dim=8)


def test_an_import_that_hangs_costs_its_own_target(cases: Path, tmp_path: Path) -> None:
    """Its file and line are told, nothing of it goes on, and the targets around it have their reports."""
    file = tmp_path / "hangs.py"
    file.write_text(HANGS, encoding="utf-8")
    around = f"{KERNELS / 'killer.py'}::bystander"
    ran = matrix(tmp_path / "out", cases, "--target", around, "--target", file, "--target", around, "--load-timeout", 8)
    assert ran.code == 2
    assert ran.err == (
        f"kvcheck: target '{file}': not loaded after 8 s, in {file}, line 6, in lock; --load-timeout gives it more\n"
    )
    assert [report.summary for report in ran.reports.values()] == [{"pass": 2}]
    assert len(list((tmp_path / "out").glob("*/*/report.json"))) == 2
    assert "exit 2" in ran.out
    assert not [pid for pid in children(os.getpid()) if "kvcheck.run.nursery" in command_line(pid)]


def test_a_target_that_cannot_be_loaded_costs_its_own_reports(cases: Path, tmp_path: Path) -> None:
    """One line for each; the last one runs. Alone it leaves nothing to report on."""
    for name, text in (("raises.py", "raise ValueError('no')\n"), ("misses.py", "import no_such_engine\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    bad = ["--target", tmp_path / "raises.py", "--target", tmp_path / "misses.py"]
    ran = matrix(tmp_path / "out", cases, *bad, "--target", f"{KERNELS / 'killer.py'}::bystander")
    assert ran.code == 2
    first, second = ran.err.splitlines()
    assert "raised ValueError at line 1: no" in first
    assert "cannot be imported" in second
    assert ran.report.summary == {"pass": 2}
    alone = matrix(tmp_path / "alone", cases, *bad, "--arch", "sm_89", "--arch", "sm_90")
    assert (alone.code, alone.out, alone.reports) == (2, "", {})
    assert alone.err.splitlines() == [first, second]


def test_a_process_that_does_not_say_where_it_hangs_is_said_to_hang(cases: Path, tmp_path: Path) -> None:
    """It does not hear the question."""
    file = tmp_path / "deaf.py"
    file.write_text(DEAF, encoding="utf-8")
    ran = matrix(tmp_path / "out", cases, "--target", file, "--load-timeout", 4)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"kvcheck: target '{file}': not loaded after 4 s; --load-timeout gives it more\n"


def test_a_preparation_that_hangs_is_told_alike(cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter's `prepare` runs in the same process, under the same limit."""
    monkeypatch.setenv("KVCHECK_TEST_STUCK", "prepare")
    ran = matrix(tmp_path / "out", cases, "--target", KERNELS / "stuck.py", "--load-timeout", 15)
    assert ran.code == 2
    assert f"in {KERNELS / 'stuck.py'}, line " in ran.err
    assert ", in wait_for_ever; " in ran.err


def test_what_had_run_is_reported_where_the_target_cannot_be_loaded_again(
    cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case kills the process that has the target loaded, and the next import hangs: what was done is reported."""
    monkeypatch.setenv("KVCHECK_TEST_STUCK", f"kills:{tmp_path / 'loaded'}")
    ran = matrix(
        tmp_path / "out", cases, "--target", KERNELS / "stuck.py", "--target", f"{KERNELS / 'killer.py'}::bystander",
        "-j", 1, "--load-timeout", 15,
    )  # fmt: skip
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "wait_for_ever; --load-timeout gives it more" in ran.err
    assert ran.reports["bystander"].summary == {"pass": 2}
    stuck = ran.reports["stuck"]
    assert (stuck.planned, stuck.summary) == (2, {"pass": 1})


def test_a_fresh_interpreter_that_hangs_confirms_nothing(
    cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And takes nothing from what the fork has shown: no word of order or chance."""
    monkeypatch.setenv("KVCHECK_TEST_STUCK", f"wrong:{tmp_path / 'loaded'}")
    ran = matrix(
        tmp_path / "out", cases, "--target", KERNELS / "stuck.py", "-j", 1, "--timeout", 5, "--load-timeout", 15
    )
    assert (ran.code, ran.report.summary) == (1, {"pass": 1, "mismatch": 1})
    wrong = ran.report.cases[1]
    assert wrong.cold_confirmed is None
    assert "not confirmed in a fresh interpreter: after 20 s it had not begun" in wrong.reason


@pytest.mark.parametrize(
    ("number", "status", "said"), [(signal.SIGINT, 130, "stopped with Ctrl-C"), (signal.SIGKILL, -signal.SIGKILL, "")]
)
def test_what_ends_a_run_ends_a_load_that_hangs(
    number: int, status: int, said: str, cases: Path, tmp_path: Path
) -> None:
    """The process that loads goes too, though it does not look at what it is told."""
    file = tmp_path / "hangs.py"
    file.write_text(f"open({str(tmp_path / 'begun')!r}, 'w')\n{HANGS}", encoding="utf-8")
    process = start("matrix", cases, "--target", file, "--device", "cpu", "--out", "out", cwd=tmp_path)
    with process:
        try:
            wait_for((tmp_path / "begun").exists)
            loading = [pid for pid in children(process.pid) if "kvcheck.run.nursery" in command_line(pid)]
            os.killpg(process.pid, number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert len(loading) == 1
    assert (process.returncode, err) == (status, "")
    assert said in out
    wait_for(lambda: not any(map(is_running, loading)))


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("", ""),
        ("noise\n", ""),
        ('Stack (most recent call first):\n  File "a b.py", line 3 in f\n  File "c.py", line 4 in <module>\n',
         "a b.py, line 3, in f"),
        ('  File "<frozen importlib._bootstrap>", line 1 in _find\n  File "c.py", line 4 in <module>\n',
         "c.py, line 4, in <module>"),
        ('  File "<frozen runpy>", line 88 in _run_code\n', ""),
    ],
)  # fmt: skip
def test_the_place_is_the_innermost_frame_of_a_file(printed: str, told: str) -> None:
    """Python's own import is not where anybody looks."""
    assert place(printed) == told
