"""What tests of single faults ask for: that no other is looked for."""

from __future__ import annotations

import importlib

import pytest

from kvcheck.diagnose.sibling_pitch import SiblingPitch


@pytest.fixture
def sibling_pitch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for `sibling-pitch` and no other fault."""
    # The package's name for the function hides the module's.
    module = importlib.import_module("kvcheck.diagnose.diagnose")
    monkeypatch.setattr(module, "FAULTS", (SiblingPitch(),))
    monkeypatch.setattr(module, "elsewhere", lambda *_: [])
