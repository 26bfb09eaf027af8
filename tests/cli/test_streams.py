"""What a command prints may meet a full disk, a closed pipe or no stream at all: none of them is a wrong byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from run.command import environment

REPORTS = Path(__file__).parents[2] / "reports" / "sm_90-native" / "conch"
FULL = "standard output: cannot be written: No space left on device"


def _shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell in which `kvcheck` is the command; its exit code is the last command's."""
    script = f'kvcheck() {{ "{sys.executable}" -m kvcheck.cli.main "$@"; }}; {line}'
    return subprocess.run(
        ["/bin/bash", "-c", script], env=environment(), capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("words", ["cases seed", f"report {REPORTS}", f"report {REPORTS} --to markdown"])
def test_a_full_disk_is_one_line_and_exit_2(words: str) -> None:
    """What was asked for is not there: that is no success, nor a traceback."""
    done = _shell(f"kvcheck {words} > /dev/full")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"kvcheck: {FULL}"]


@pytest.mark.parametrize("words", ["cases full", f"report {REPORTS}", f"report {REPORTS} --to markdown"])
def test_a_reader_that_leaves_changes_no_exit_code(words: str) -> None:
    """Who pipes into head has seen enough; nothing is said of it."""
    done = _shell(f"kvcheck {words} | head -1 > /dev/null; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (0, "")


def test_streams_may_be_closed_from_the_start() -> None:
    """The exit code is what it would have been: 0, or 2 for a file that is not there."""
    assert _shell("kvcheck cases seed <&- >&- 2>&-").returncode == 0
    assert _shell("kvcheck cases absent <&- >&- 2>&-").returncode == 2


def test_a_full_disk_leaves_the_code_of_what_went_wrong() -> None:
    """A worse thing than lost output keeps its exit code."""
    done = _shell("kvcheck cases absent > /dev/full")
    assert done.returncode == 2
    assert "no such matrix file" in done.stderr


def test_a_mistake_of_kvcheck_is_no_wrong_byte(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Python would exit with 1 behind a traceback, which is the code of a mismatch."""
    from kvcheck.cli.main import run  # noqa: PLC0415
    from kvcheck.matrix import files  # noqa: PLC0415

    monkeypatch.setattr(files, "find", lambda _: 1 // 0)
    assert run(["cases", "seed"]) == 3
    err = capfd.readouterr().err
    assert "ZeroDivisionError" in err
    assert err.endswith("kvcheck: this is a mistake of kvcheck's own, and says nothing of a kernel\n")
