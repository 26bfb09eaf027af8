"""`kvcheck targets --new`: a first adapter, which runs as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from sketches.running import judged

import kvcheck.kernels.template  # noqa: F401 - torch and triton can be imported but once in a process
from kvcheck.errors import TargetError
from kvcheck.schema import Case
from kvcheck.targets.load import load
from kvcheck.targets.new import TEMPLATE, write_adapter


def test_the_adapter_has_the_name_asked_for(tmp_path: Path) -> None:
    """The file, the target and its function are named alike, and the text says how to run it."""
    path = write_adapter("our-fp8-store", tmp_path)
    (found,) = load(str(path))
    assert path == tmp_path / "our_fp8_store.py"
    assert (found.target.name, found.target.function.__name__) == ("our-fp8-store", "our_fp8_store")
    text = path.read_text(encoding="utf-8")
    assert "--target our_fp8_store.py" in text
    assert "my-kernel" not in text
    assert len(text.splitlines()) <= 30


@pytest.mark.parametrize("case", [Case(), Case(k_view="qkv", v_view="head_padded", heads=5, head_dim=80)])
def test_the_adapter_is_right_as_it_is_written(tmp_path: Path, case: Case) -> None:
    """Every code and scale of it is compared, and is what its contract says."""
    (found,) = load(str(write_adapter("first", tmp_path)))
    verdict = judged(found.target, case)
    assert verdict.codes.compared == 2 * case.tokens * case.heads * case.head_dim
    assert verdict.scales.compared == 2 * case.tokens * case.heads
    assert verdict.outcome == "pass"


def test_the_template_is_found_wrong_once_it_is_broken(tmp_path: Path) -> None:
    """Were K's pitch used for V too, a case with unlike pitches would say so: the adapter runs its own kernel."""
    path = write_adapter("first", tmp_path)
    text = path.read_text(encoding="utf-8")
    broken = text.replace("*x.stride()[:2]", "*k.stride()[:2]")
    assert broken != text
    path.write_text(broken, encoding="utf-8")
    (found,) = load(str(path))
    assert judged(found.target, Case(k_view="qkv")).outcome == "mismatch"


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    """It may be somebody's work: one line, and not a byte of it changes."""
    path = tmp_path / "mine.py"
    path.write_text("work", encoding="utf-8")
    with pytest.raises(TargetError, match=r"mine\.py was not written: File exists"):
        write_adapter("mine", tmp_path)
    assert path.read_text(encoding="utf-8") == "work"


@pytest.mark.parametrize("name", ["", "Mine", "a b", "../mine", "1st", "mine.py", "mine-", "a--b", "mine\n"])
def test_a_name_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing is written for it."""
    with pytest.raises(TargetError, match="expected lower-case words joined by dashes"):
        write_adapter(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_template_is_part_of_the_package() -> None:
    """It lies inside kvcheck, so that an installed kvcheck has it."""
    assert TEMPLATE.is_file()
