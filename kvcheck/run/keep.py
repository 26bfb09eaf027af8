"""Failing cases keep their emission, so that they can be explained later and elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

from kvcheck.run.protocol import EMISSION
from kvcheck.schema import CaseResult

#: Bytes of the largest emission that is kept, and of all that one report keeps.
LARGEST = 8 << 20
TOTAL = 128 << 20

#: Outcomes that have an emission worth keeping.
KEPT = frozenset({"mismatch", "violation", "inconclusive", "xpass"})


def keep_emission(folder: Path, result: CaseResult, case_folder: Path) -> None:
    """Copy a failing case's emission to `<folder>/<id>.msgpack`, within the caps. A full disk loses only this copy."""
    emission = case_folder / EMISSION
    if result.outcome not in KEPT or not emission.exists() or emission.stat().st_size > LARGEST:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = sum(file.stat().st_size for file in folder.glob("*.msgpack"))
        if kept + emission.stat().st_size <= TOTAL:
            shutil.copyfile(emission, folder / f"{result.id}.msgpack")
    except OSError:
        return
