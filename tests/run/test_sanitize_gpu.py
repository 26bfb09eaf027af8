"""`kvcheck sanitize` on a GPU: the tools see, name the line and the tensor, and say nothing of right kernels."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from kvcheck.kernels import store
from kvcheck.run.compute_sanitizer import find
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import RECORDING, Job
from kvcheck.run.result import result_of
from kvcheck.run.tools import Setup, Way, under_tools
from kvcheck.schema import Case, CaseResult, SanitizerRun

from .command import SEED, kvcheck, reports_in

pytestmark = pytest.mark.gpu

QKV = Case(k_view="qkv")
PADDED = Case(k_view="inner2", v_view="head_padded", tokens=3, head_dim=80)

#: Specimens that read what they must not, and a case that shows it.
READERS = {
    "shared-pitch": QKV, "shared-pitch-of-v": Case(v_view="qkv"), "dense-heads": PADDED, "unit-inner-stride": PADDED,
    "storage-begin": Case(k_view="offset17", v_view="offset8", tokens=5, head_dim=20), "amax-behind-row": QKV,
    "running-scale": QKV,
}  # fmt: skip

TOOLS = ("initcheck", "memcheck")
WAYS: tuple[Way, ...] = ("replay", "whole")

#: A specimen whose pointers lead to the begin of storages, which only its own process can make.
BESIDE = "storage-begin"

#: Processes under a tool at a time.
AT_ONCE = 8


class Look(NamedTuple):
    """A specimen in one way."""

    name: str
    way: Way | None
    """None for the way that a run takes by itself."""


@cache
def sanitized() -> dict[Look, CaseResult]:
    """Every specimen over its case, in both ways, under both tools: one nursery for all."""
    sanitizer = find()
    assert sanitizer is not None
    names = tuple(READERS)
    with Nursery("specimen:*", Options(device="cuda", jobs=4)) as nursery, tempfile.TemporaryDirectory() as root:
        infos = {info.name: info for info in nursery.hello.targets}
        for number, name in enumerate(names):
            folder = Path(root) / str(number)
            folder.mkdir()
            nursery.submit(Job(number, f"specimen:{name}", READERS[name], str(folder), 60.0, witness="record"))
        ended = {each.number: each for each in (nursery.next_ended() for _ in names)}

        def one(look: Look) -> tuple[Look, CaseResult]:
            number, info = names.index(look.name), infos[f"specimen:{look.name}"]
            isolated, place = Path(root) / str(number), Path(root) / f"{number}-{look.way}"
            place.mkdir()
            result = result_of(READERS[look.name], ended[number], isolated, info, expect_declared=False)
            tools = dict.fromkeys(TOOLS, "")
            setup = Setup(sanitizer, tools, look.way, info.name, info, nursery.environment(), 120.0)
            return look, under_tools(READERS[look.name], result, isolated / RECORDING, setup, place)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            looks = [Look(name, way) for name in names for way in (WAYS if name != BESIDE else (None,))]
            return dict(pool.map(one, looks))


def test_the_case_that_kvcheck_grew_from(tmp_path: Path) -> None:
    """Both tools name the load's line and V's end, in one report, and agree with the codes."""
    ran = kvcheck(
        "sanitize", SEED, "--target", "specimen:shared-pitch", "--select", "bf11ca0347", "--device", "cuda",
        "--out", tmp_path,
    )  # fmt: skip
    assert ran.code == 1, ran.err
    (report,) = reports_in(tmp_path).values()
    assert str(report.environment["sanitizer"]).startswith("compute-sanitizer 20")
    lines = Path(store.__file__).read_text(encoding="utf-8").splitlines()
    (line,) = (number for number, text in enumerate(lines, 1) if text.strip().startswith("value = tl.load(row + heads"))
    (case,) = report.cases
    assert case.outcome == "mismatch"
    assert [(run.tool, run.memory, run.way, run.state) for run in case.sanitized] == [
        ("initcheck", "pooled", "replay", "records"), ("memcheck", "exact", "replay", "records"),
    ]  # fmt: skip
    for run in case.sanitized:
        assert {(each.line, each.tensor, each.side) for each in run.records} == {(line, "v", "after")}
        assert run.agreement == f"{run.tool} and the codes name the same rows: V at pitch 1152"


@pytest.mark.parametrize("way", WAYS)
def test_a_right_kernel_is_clean(tmp_path: Path, way: Way) -> None:
    """Cases of the seed matrix, under both tools, each way."""
    chosen = "k_values=normal*5,dtype=bf16,k_view=qkv"
    ran = kvcheck("sanitize", SEED, "--select", chosen, f"--{way}", "--device", "cuda", "--out", tmp_path)
    assert ran.code == 0, ran.out
    (report,) = reports_in(tmp_path).values()
    assert {(run.tool, run.way, run.state) for case in report.cases for run in case.sanitized} == {
        ("initcheck", way, "clean"), ("memcheck", way, "clean"),
    }  # fmt: skip


def _looked(look: Look) -> tuple[SanitizerRun, ...]:
    """Both tools' runs of a specimen, neither of which may have been in vain."""
    found = sanitized()[look].sanitized
    assert not [(run.tool, run.way, run.reason) for run in found if run.state == "inconclusive"]
    assert tuple(run.tool for run in found) == TOOLS
    return found


@pytest.mark.parametrize("name", sorted(READERS.keys() - {BESIDE}))
def test_both_ways_have_the_same_records(name: str) -> None:
    """The launch made again and the target's own process: the same causes, at the same lines."""
    causes = [
        {
            (run.tool, each.kind, each.access, each.line, each.tensor, each.side)
            for run in _looked(Look(name, way))
            for each in run.records
        }
        for way in WAYS
    ]
    assert causes[0] == causes[1]
    assert causes[0]


def test_a_pointer_beside_all_tensors_is_run_whole() -> None:
    """What lies before K and V in their storages nobody has stored; it is theirs, so memcheck has nothing to say."""
    initcheck, memcheck = _looked(Look(BESIDE, None))
    assert {(each.kind, each.tensor, each.side) for each in initcheck.records} == {
        ("uninitialised", "k", "before"), ("uninitialised", "v", "before"),
    }  # fmt: skip
    assert (initcheck.way, memcheck.way, memcheck.state) == ("whole", "whole", "clean")
