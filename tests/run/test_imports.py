"""What the run's own processes import: torch is the nursery's alone, and costs the others seconds and memory."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["kvcheck.run.command", "kvcheck.run.session", "kvcheck.run.judge_worker"])
def test_the_run_and_its_judges_load_no_torch(module: str) -> None:
    """Whatever they wire together is read from files, where a child wrote it."""
    code = f"import sys, {module}; print(*{{'torch', 'triton'}} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "\n"
