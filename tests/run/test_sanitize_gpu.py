"""`kvcheck sanitize` on a GPU: the tools see, name the line and the tensor, and say nothing of right kernels."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from kvcheck.kernels import store
from kvcheck.schema import Report

from .command import SEED, kvcheck, reports_in, write_matrix

pytestmark = pytest.mark.gpu

#: Specimens that read what they must not, and the axes of a case that shows it.
READERS: dict[str, dict[str, object]] = {
    "shared-pitch": {"k_view": "qkv"},
    "shared-pitch-of-v": {"v_view": "qkv"},
    "dense-heads": {"k_view": "inner2", "v_view": "head_padded", "tokens": 3, "head_dim": 80},
    "storage-begin": {"k_view": "offset17", "v_view": "offset8", "tokens": 5, "head_dim": 20},
    "amax-behind-row": {"k_view": "qkv"},
    "running-scale": {"k_view": "qkv"},
}


@cache
def sanitized(target: str, way: str) -> Report:
    """A specimen over the case that shows it, in one way."""
    folder = Path(mkdtemp())
    matrix = write_matrix(folder / "matrix.toml", layout=["arena"], **READERS[target.removeprefix("specimen:")])
    kvcheck("sanitize", matrix, "--target", target, f"--{way}", "--device", "cuda", "--out", folder / "reports")
    (report,) = reports_in(folder / "reports").values()
    return report


def test_the_case_that_kvcheck_grew_from(tmp_path: Path) -> None:
    """Both tools name the load's line and V's end, in one report, and agree with the codes."""
    chosen = "k_view=qkv,v_view=dense,layout=pooled,dtype=bf16"
    ran = kvcheck(
        "sanitize", SEED, "--target", "specimen:shared-pitch", "--select", chosen, "--device", "cuda", "--out", tmp_path
    )
    assert ran.code == 1, ran.err
    (report,) = reports_in(tmp_path).values()
    assert str(report.environment["sanitizer"]).startswith("compute-sanitizer 20")
    lines = Path(store.__file__).read_text(encoding="utf-8").splitlines()
    (line,) = (number for number, text in enumerate(lines, 1) if text.strip().startswith("value = tl.load(row + heads"))
    for case in report.cases:
        assert case.outcome == "mismatch"
        assert [(run.tool, run.memory, run.way, run.state) for run in case.sanitized] == [
            ("initcheck", "pooled", "replay", "records"), ("memcheck", "exact", "replay", "records"),
        ]  # fmt: skip
        for run in case.sanitized:
            assert {(each.line, each.tensor, each.side) for each in run.records} == {(line, "v", "after")}
            assert run.agreement == f"{run.tool} and the codes name the same rows: V at pitch 1152"


@pytest.mark.parametrize("way", ["replay", "whole"])
def test_a_right_kernel_is_clean(tmp_path: Path, way: str) -> None:
    """Every case of a part of the seed matrix, under both tools, each way."""
    chosen = "k_values=normal*5,dtype=bf16,k_view=qkv"
    ran = kvcheck("sanitize", SEED, "--select", chosen, f"--{way}", "--device", "cuda", "--out", tmp_path)
    assert ran.code == 0, ran.out
    (report,) = reports_in(tmp_path).values()
    assert {(run.tool, run.way, run.state) for case in report.cases for run in case.sanitized} == {
        ("initcheck", way, "clean"), ("memcheck", way, "clean"),
    }  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_both_ways_have_the_same_records(name: str) -> None:
    """The launch made again and the target's own process: the same causes, at the same lines."""
    causes = []
    for way in ("replay", "whole"):
        (case,) = sanitized(f"specimen:{name}", way).cases
        found = {
            (run.tool, each.kind, each.access, each.line, each.tensor, each.side)
            for run in case.sanitized
            for each in run.records
        }
        causes.append(found)
    assert causes[0] == causes[1]
    assert causes[0]
