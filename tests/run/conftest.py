"""What tests of sanitizers ask for: a compute-sanitizer that says what a test has it say."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from kvcheck.run.compute_sanitizer import Sanitizer, find

from . import fake_sanitizer


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sanitizer:
    """It, found on PATH as the real one is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "compute-sanitizer"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {fake_sanitizer.__file__} "$@"\n', encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    found = find()
    assert found is not None
    return found
