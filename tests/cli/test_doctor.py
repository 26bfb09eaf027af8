"""`kvcheck doctor` as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from kvcheck.lowering.machine import Finding

ROOT = Path(__file__).parents[2]


def doctor(*arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """The command's end; `path` comes first on PYTHONPATH."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in (path, str(ROOT)) if part)}
    command = [sys.executable, "-m", "kvcheck.cli.main", "doctor", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_json_has_every_finding() -> None:
    """A list of names, values and meanings, and nothing else on standard output."""
    done = doctor("--json")
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout, type=list[Finding])
    names = [finding.name for finding in found]
    for name in (
        "torch",
        "triton",
        "GPU",
        "compute-sanitizer",
        "448 / 448",
        "Triton's division",
        "interpreter corrected",
    ):
        assert name in names
    assert all(finding.value and finding.means for finding in found)


def test_text_has_a_value_and_a_sentence_each(tmp_path: Path) -> None:
    """Even where torch and triton cannot be imported: exit 0, no traceback."""
    for package in ("torch", "triton"):
        (tmp_path / f"{package}.py").write_text(f"raise ImportError('{package} is broken here')\n")
    done = doctor(path=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) % 2 == 0
    assert all(": " in line for line in lines[::2])
    assert all(line.startswith("    ") and line.endswith(".") for line in lines[1::2])
    assert "GPU: none (ImportError: torch is broken here)" in lines
    assert "interpreter corrected: not measured" in done.stdout
