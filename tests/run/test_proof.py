"""compute-sanitizer: found, called, and believed only once it has caught a kernel that is known to be bad."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sanitizer.outputs import printed, record, saved

from kvcheck.errors import SelectionError
from kvcheck.run import compute_sanitizer
from kvcheck.run.compute_sanitizer import Sanitizer, find
from kvcheck.run.proof import doubts
from kvcheck.run.protocol import Hello
from kvcheck.run.sanitize import Asked, Witnesses

from .scenario import says


def test_it_is_found_with_its_version(fake: Sanitizer) -> None:
    """On PATH; with the version that it says."""
    assert fake.version == "2025.3.1"


@pytest.mark.parametrize("tool", ["memcheck", "initcheck"])
def test_how_it_is_called(tmp_path: Path, tool: str) -> None:
    """Every record, whole paths, a status of its own; what memcheck alone takes is for memcheck alone."""
    path = tmp_path / "tool"
    path.write_text('#!/bin/sh\necho "$@"\nexit 3\n', encoding="utf-8")
    path.chmod(0o755)
    output = Sanitizer(str(path), "1").run(tool, ["program", "--option"], tmp_path, timeout=60.0)
    assert (output.exit, output.logged, output.xml) == (3, False, b"")
    for option in ("--print-limit 0", "--strip-paths no", "--error-exitcode 66", f"--tool {tool} --xml --save"):
        assert f"{option} " in output.text
    assert ("--padding 1048576" in output.text) == (tool == "memcheck")
    assert output.text.endswith("program --option\n")


def test_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence: where it comes from, and what needs none."""
    monkeypatch.setattr(compute_sanitizer, "_places", list)
    assert find() is None
    with pytest.raises(SelectionError, match=r"CUDA toolkit.*--device cpu needs none"):
        Witnesses(Asked()).check(Hello(cuda=True))


BAD = record("Invalid __global__ read of size 4 bytes", address=0x7F0000000040, kernel="kvcheck_out_of_bounds")
RESULT = {"result": {"bases": [0x7F0000000000, 0x7F0001000000], "stage": "done", "error": ""}}


@pytest.mark.parametrize(
    ("bad", "right", "says_"),
    [
        ({"saved": saved([BAD]).decode(), "printed": printed(1, "error"), "exit": 66}, {}, ""),
        ({}, {}, "known to be bad, and did not see it: clean"),
        ({"saved": saved([BAD]).decode(), "printed": printed(1, "error"), "exit": 66},
         {"saved": saved([BAD.replace("out_of_bounds", "right")]).decode(), "printed": printed(1), "exit": 66},
         "a kernel that is right"),
        ({"saved": saved([BAD.replace("kvcheck_out_of_bounds", "other")]).decode(), "printed": printed(1), "exit": 66},
         {}, "did not see it: records"),
        ({"printed": ""}, {}, "no summary"),
    ],
)  # fmt: skip
def test_proof(
    fake: Sanitizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bad: dict[str, Any],
    right: dict[str, Any],
    says_: str,
) -> None:
    """The known-bad kernel must be caught by name and kind, and the right one called clean."""
    base = {"saved": saved().decode(), "printed": printed(0), "exit": 0, **RESULT}
    says(
        monkeypatch, tmp_path,
        {"memcheck kvcheck_out_of_bounds": {**base, **bad}, "memcheck kvcheck_right": {**base, **right}},
    )  # fmt: skip
    found = doubts(fake, "memcheck", tmp_path)
    assert says_ in found
    assert bool(found) == bool(says_)


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="here the player does find a driver")
def test_without_a_driver_nothing_is_proven(fake: Sanitizer, tmp_path: Path) -> None:
    """The fake runs its program: the player itself, which finds no driver; nothing was logged, nothing is proven."""
    assert "it kept no log" in doubts(fake, "memcheck", tmp_path)
