"""Cases under compute-sanitizer's tools, with one that says what a test has it say."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sanitizer.outputs import printed, record, saved
from sanitizer.replay.test_plan import SEED, scene

from kvcheck.api import StoreTarget
from kvcheck.errors import SelectionError
from kvcheck.kernels.store import store
from kvcheck.matrix.ids import case_id
from kvcheck.run import tools
from kvcheck.run.compute_sanitizer import Sanitizer
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import Hello, TargetInfo
from kvcheck.run.result import not_run
from kvcheck.run.sanitize import Asked, Witnesses
from kvcheck.run.tools import Setup, expandable, run_under_tools, under_tools
from kvcheck.sanitizer.replay.recording import Argument, KernelLaunch, Recording
from kvcheck.schema import Case, CaseResult, CodesVerdict, Outcome

from .scenario import says


def info(*, triton: bool = True) -> TargetInfo:
    """The store, as a nursery with a GPU says it is."""
    assert isinstance(store, StoreTarget)
    return TargetInfo(
        "store", "store", store.contract, store.accepts, store.form, (), None, "0", None, "native", triton, "sm_90"
    )


def setup(fake: Sanitizer, *names: str, **changes: Any) -> Setup:
    """Those tools, all believed."""
    made = Setup(fake, dict.fromkeys(names, ""), None, "store", info(), os.environ, 60.0)
    return replace(made, **changes)


ROWS = {
    "k_codes": bytes(range(8)) * 384, "v_codes": bytes(8 * 384), "k_scales": bytes(8 * 12), "v_scales": bytes(8 * 12),
}  # fmt: skip


def recording(reason: str = "") -> Recording:
    """A launch of the store, as far as a fake needs it."""
    kernel = KernelLaunch("store_kernel", b"code", (8, 1, 1), 128, 0, 0, (Argument(pointer=True, tensor="v"),))
    return Recording((kernel,), (b"own",), ROWS, 3, reason)


def left(layout: str, rows: Mapping[str, bytes] = ROWS, **changes: Any) -> dict[str, Any]:
    """What a launch leaves that came to its end."""
    where = scene(SEED, layout)
    bases = [0x7F0000000000 + index * (1 << 24) for index in range(len(where.placement.allocations) + 1)]
    data = b"".join(rows[name] for name in where.due)
    return {"result": {"bases": bases, "stage": "done", "error": "", **changes}, "rows": data.hex()}


def clean(layout: str, **changes: Any) -> dict[str, Any]:
    """A run with nothing to say."""
    return {"saved": saved().decode(), "printed": printed(0), "exit": 0, **left(layout), **changes}


def faulty(layout: str, text: str, **changes: Any) -> dict[str, Any]:
    """V read with K's pitch: one lane each of the tokens that lie past its end."""
    v = scene(SEED, layout).placement.get("v")
    start = 0x7F0000000000 + v.allocation * (1 << 24) + v.offset
    records = [record(text, address=start + 2304 * token, block=token) for token in range(3, 8)]
    return {"saved": saved(records).decode(), "printed": printed(5), "exit": 66, **left(layout), **changes}


def run(fake_setup: Setup, folder: Path, outcome: Outcome = "pass", recorded: Recording | None = None) -> CaseResult:
    """The seed's case, isolated with that outcome, then under the tools."""
    place = folder / "case"
    place.mkdir()
    file = folder / "recording"
    if recorded is not None:
        file.write_bytes(msgspec.msgpack.encode(recorded))
    result = msgspec.structs.replace(not_run(SEED, outcome, ""), codes=CodesVerdict(compared=6144))
    return under_tools(SEED, result, file, fake_setup, place)


def test_a_right_kernel_is_clean_under_both_tools(
    fake: Sanitizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in its layout, made again, with the seconds that it took."""
    says(monkeypatch, tmp_path, {"initcheck": clean("pooled"), "memcheck": clean("exact")})
    found = run(setup(fake, "initcheck", "memcheck"), tmp_path, "pass", recording())
    assert (found.outcome, found.reason) == ("pass", "")
    assert [(each.tool, each.memory, each.way, each.state, each.reason) for each in found.sanitized] == [
        ("initcheck", "pooled", "replay", "clean", ""), ("memcheck", "exact", "replay", "clean", ""),
    ]  # fmt: skip
    assert all(each.seconds > 0 for each in found.sanitized)


def test_the_case_that_kvcheck_grew_from(fake: Sanitizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both tools name V's end and the line; the bytes stay the verdict."""
    scenario = {
        "initcheck": faulty("pooled", "Uninitialized __global__ memory read of size 2 bytes"),
        "memcheck": faulty("exact", "Invalid __global__ read of size 2 bytes", result={
            "bases": left("exact")["result"]["bases"], "stage": "kernel 1, store_kernel",
            "error": "cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED",
        }),
    }  # fmt: skip
    says(monkeypatch, tmp_path, scenario)
    found = run(setup(fake, "initcheck", "memcheck"), tmp_path, "mismatch", recording())
    assert found.outcome == "mismatch"
    assert [(each.state, each.counted) for each in found.sanitized] == [("records", 5), ("records", 5)]
    for each in found.sanitized:
        (cause,) = each.records
        assert (cause.tensor, cause.side, cause.line, cause.pitch, cause.tokens) == (
            "v",
            "after",
            58,
            1152,
            (3, 4, 5, 6, 7),
        )
    assert "CUDA_ERROR_LAUNCH_FAILED, in kernel 1" in found.sanitized[1].reason
    assert [text.split(":")[0] for text in found.sanitizer] == ["initcheck", "memcheck"]


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ({"saved": ""}, "no records were saved"), ({"printed": ""}, "no summary"), ({"exit": 3}, "ended with status 3"),
        ({"printed": printed(2)}, "counts 2, and 0 were saved"), ({"saved": saved().decode()[:-5]}, "no XML"),
        ({"result": {"bases": [], "stage": "uploading", "error": "cuInit: CUDA_ERROR_NO_DEVICE"}}, "NO_DEVICE, in up"),
        (left("exact", {**ROWS, "v_codes": bytes(3071) + b"\1"}), "other bytes in v_codes"),
    ],
)  # fmt: skip
def test_what_is_not_proven_is_inconclusive(
    fake: Sanitizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: dict[str, Any], reason: str
) -> None:
    """A pass without its witness is none."""
    says(monkeypatch, tmp_path, {"memcheck": clean("exact", **scenario)})
    found = run(setup(fake, "memcheck"), tmp_path, "pass", recording())
    assert (found.outcome, found.sanitized[0].state) == ("inconclusive", "inconclusive")
    assert reason in found.reason


def test_rows_are_held_against_right_ones_alone(
    fake: Sanitizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that stores wrong codes may store others where memory holds others."""
    says(monkeypatch, tmp_path, {"memcheck": clean("exact", **left("exact", {**ROWS, "v_codes": bytes(3071) + b"\1"}))})
    found = run(setup(fake, "memcheck"), tmp_path, "mismatch", recording())
    assert found.sanitized[0].state == "clean"


def test_a_tool_that_hangs_is_killed(fake: Sanitizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the time limit, and said so."""
    says(monkeypatch, tmp_path, {"memcheck": clean("exact", sleeps=60)})
    found = run(setup(fake, "memcheck", timeout=1.0), tmp_path, "pass", recording())
    assert "killed at its time limit" in found.reason


def test_a_stopped_sanitizer_starts_nothing(fake: Sanitizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C."""
    says(monkeypatch, tmp_path, {"memcheck": clean("exact")})
    fake.stop()
    assert run(setup(fake, "memcheck"), tmp_path, "pass", recording()).outcome == "inconclusive"


@pytest.mark.parametrize(
    ("outcome", "recorded", "way", "wanted"),
    [
        ("pass", recording(), None, "replay"), ("pass", recording("no cubin"), None, "whole"),
        ("crash", None, None, "whole"),
        ("pass", recording(), "whole", "whole"), ("pass", recording("no cubin"), "replay", "replay"),
        ("crash", None, "replay", "replay"),
    ],
)  # fmt: skip
def test_ways(
    fake: Sanitizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
    recorded: Recording | None,
    way: str | None,
    wanted: str,
) -> None:
    """Made again where that can be done, else by the target's own process; and what was asked for is never swapped."""
    says(monkeypatch, tmp_path, {"memcheck": clean("exact")})
    found = run(setup(fake, "memcheck", way=way), tmp_path, outcome, recorded)
    (one,) = found.sanitized
    assert one.way == wanted
    cannot = wanted == "replay" and (recorded is None or recorded.reason)
    assert ("--whole alone can run it" in one.reason) == bool(cannot)
    assert one.state == ("inconclusive" if cannot else "clean")


def test_where_nothing_was_launched(fake: Sanitizer, tmp_path: Path) -> None:
    """No token, no kernel, no access: clean, and said so. A case that was refused has nothing to say at all."""
    empty = msgspec.structs.replace(not_run(Case(tokens=0), "pass", ""))
    file = tmp_path / "recording"
    file.write_bytes(msgspec.msgpack.encode(Recording((), (), {}, 3, "no Triton kernel was launched")))
    (one,) = under_tools(Case(tokens=0), empty, file, setup(fake, "memcheck"), tmp_path).sanitized
    assert (one.state, one.reason) == ("clean", "no kernel was launched")
    refused = not_run(SEED, "refused", "not this")
    assert under_tools(SEED, refused, tmp_path / "none", setup(fake, "memcheck"), tmp_path) == refused


def test_doubts_reach_every_case(fake: Sanitizer, tmp_path: Path) -> None:
    """A tool that does not see on this machine vouches for nothing."""
    found = run(replace(setup(fake), tools={"memcheck": "it did not see"}), tmp_path, "pass", recording())
    assert (found.outcome, found.sanitized[0].reason) == ("inconclusive", "it did not see")


CASES = (
    SEED, Case(tokens=0, layout="exact"), Case(align=1), msgspec.structs.replace(SEED, v_values="normal"),
)  # fmt: skip


def test_a_whole_run(fake: Sanitizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolated and judged, then under the tool: in the cases' order, each told once. The interpreter stands for a GPU.

    Its launches cannot be recorded, so that the target's own process is what the tool gets.
    """
    says(monkeypatch, tmp_path, {"memcheck": clean("exact")})
    told: list[CaseResult] = []
    with Nursery("store", Options(device="cpu", jobs=2)) as nursery:
        found = run_under_tools(nursery, CASES, Options(jobs=2), setup(fake, "memcheck"), told.append)
    assert [each.id for each in found] == [case_id(case) for case in CASES]
    assert {each.id: each for each in told} == {each.id: each for each in found}
    assert [each.outcome for each in found] == ["inconclusive", "pass", "unsupported", "inconclusive"]
    assert [[(run.way, run.state) for run in each.sanitized] for each in found] == [
        [("whole", "inconclusive")], [("whole", "clean")], [], [("whole", "inconclusive")],
    ]  # fmt: skip
    assert "other bytes in k_codes than in the isolated run" in found[0].reason


def test_an_interrupted_run_leaves_nothing_running(
    fake: Sanitizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs under the tool is killed, and the interrupt goes on."""
    says(monkeypatch, tmp_path, {"memcheck": clean("exact", sleeps=600)})

    def interrupt(*_: object) -> tuple[CaseResult, ...]:
        began = time.monotonic()
        while not fake._running and time.monotonic() - began < 30:
            time.sleep(0.01)
        raise KeyboardInterrupt

    def isolated(*arguments: Any) -> tuple[CaseResult, ...]:
        arguments[-1](msgspec.structs.replace(not_run(SEED, "pass", ""), codes=CodesVerdict(compared=1)))
        return interrupt()

    monkeypatch.setattr(tools, "run_target", isolated)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_under_tools(None, (SEED,), Options(jobs=1), setup(fake, "memcheck"), lambda _: None)  # type: ignore[arg-type]
    assert time.monotonic() - began < 60
    assert not fake._running


def test_what_cannot_be_laid_out_is_inconclusive(fake: Sanitizer, tmp_path: Path) -> None:
    """Nor does a mistake of kvcheck's own pass, or stop the run."""
    askew = msgspec.structs.replace(SEED, align=1)
    file = tmp_path / "recording"
    file.write_bytes(msgspec.msgpack.encode(recording()))
    found = under_tools(askew, not_run(askew, "pass", ""), file, setup(fake, "memcheck"), tmp_path)
    assert found.outcome == "inconclusive"
    assert "cannot be laid out for it: align 1 is less than an element" in found.reason
    unlike = msgspec.structs.replace(recording(), rows={})
    (tmp_path / "again").mkdir()
    found = run(setup(fake, "memcheck"), tmp_path / "again", "pass", unlike)
    assert "kvcheck could not run this case under it: KeyError" in found.reason


def test_expandable_segments_are_refused(fake: Sanitizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the target's own process alone: the launch made again has no torch in it."""
    asked = {"PYTORCH_CUDA_ALLOC_CONF": "backend:native, expandable_segments: True"}
    assert "unset it" in (expandable(asked) or "")
    assert expandable({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}) is None
    found = run(setup(fake, "memcheck", way="whole", environment=asked), tmp_path, "pass", recording())
    assert "expandable segments" in found.reason
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    with pytest.raises(SelectionError, match="--whole: PYTORCH_CUDA_ALLOC_CONF"):
        Witnesses(Asked(way="whole")).check(Hello(cuda=True))


def test_a_program_gets_no_more_than_its_environment(fake: Sanitizer, tmp_path: Path) -> None:
    """A variable that a target's environment leaves out stays out: TRITON_INTERPRET=1 would keep it off the GPU."""
    assert os.environ["TRITON_INTERPRET"] == "1"
    program = [sys.executable, "-c", "import os; open('saw', 'w').write(str('TRITON_INTERPRET' in os.environ))"]
    without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    for environment, saw in ((without, "False"), (None, "True")):
        assert fake.run("memcheck", program, tmp_path, timeout=60.0, environment=environment).exit == 0
        assert (tmp_path / "saw").read_text(encoding="utf-8") == saw


@pytest.mark.parametrize("asked", [Asked(("memcheck",)), Asked(way="whole")])
def test_tools_need_a_gpu(asked: Asked) -> None:
    """Shadow memory is not swapped in for what was asked for by name."""
    with pytest.raises(SelectionError, match="compute-sanitizer needs a GPU"):
        Witnesses(asked).check(Hello(cuda=False))
