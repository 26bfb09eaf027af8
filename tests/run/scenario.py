"""What the fake compute-sanitizer is to say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

Scenario = Mapping[str, Mapping[str, Any]]


def says(monkeypatch: pytest.MonkeyPatch, folder: Path, scenario: Scenario) -> None:
    """Have it say this."""
    path = folder / "scenario.json"
    path.write_text(json.dumps(scenario), encoding="utf-8")
    monkeypatch.setenv("KVCHECK_FAKE", str(path))
