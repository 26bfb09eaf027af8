"""`kvcheck encode` as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def encode(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command's end. The tests' own switches of Triton are not passed on."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TRITON")}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *sys.path])
    command = [sys.executable, "-m", "kvcheck.cli.main", "encode", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
