"""The cases of a target under compute-sanitizer's tools, as they come out of the isolated run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from kvcheck.matrix.ids import case_id
from kvcheck.memory.forms import Unplaceable
from kvcheck.run.compute_sanitizer import Sanitizer
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import TargetInfo
from kvcheck.run.replayed import launch_whole, layout_for, replay, scene_of, single_rows
from kvcheck.run.sanitized import with_runs
from kvcheck.run.saw import saw
from kvcheck.run.scratch import scratch
from kvcheck.run.session import run_target
from kvcheck.run.whole import Asked
from kvcheck.sanitizer.replay.recording import Recording
from kvcheck.schema import Case, CaseResult, SanitizerRun

Way: TypeAlias = Literal["replay", "whole"]

#: Outcomes after which there is nothing to look at: no launch was made.
_NOT_LAUNCHED = frozenset({"unsupported", "refused"})

#: Outcomes of which every code is right.
_RIGHT = frozenset({"pass", "violation"})

#: Bytes of a case's memory that is laid out again at most.
MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Setup:
    """What runs the cases of one target under tools."""

    sanitizer: Sanitizer
    tools: Mapping[str, str]
    """Tools, and why one of them is not to be believed on this machine; empty where it is."""
    way: Way | None
    """None: made again where that can be done, else by the target's own process."""
    spec: str
    info: TargetInfo
    environment: Mapping[str, str]
    """The environment of the target's own process."""
    timeout: float


@dataclass(frozen=True)
class _Look:
    """One case under one tool."""

    case: Case
    result: CaseResult
    recorded: Recording | None
    tool: str
    layout: str
    folder: Path


def run_under_tools(
    nursery: Nursery, cases: Sequence[Case], options: Options, setup: Setup, on_result: Callable[[CaseResult], None]
) -> tuple[CaseResult, ...]:
    """Every case isolated and judged, then under each tool, `options.jobs` at a time. In the cases' order."""
    by_id = {case_id(case): case for case in cases}
    lock = threading.Lock()
    futures: dict[str, Future[CaseResult]] = {}
    with scratch() as folder, ThreadPoolExecutor(options.jobs) as pool:
        records = folder / "records"
        records.mkdir()

        def look(result: CaseResult) -> CaseResult:
            place = folder / result.id
            place.mkdir()
            found = under_tools(by_id[result.id], result, records / f"{result.id}.msgpack", setup, place)
            with lock:
                on_result(found)
            return found

        def on_isolated(result: CaseResult) -> None:
            futures[result.id] = pool.submit(look, result)

        try:
            run_target(nursery, setup.info, cases, replace(options, witness="record", records=records), on_isolated)
            return tuple(futures[case_id(case)].result() for case in cases)
        except BaseException:  # Ctrl-C, and whatever else: nothing may be left running
            pool.shutdown(wait=False, cancel_futures=True)
            setup.sanitizer.stop()
            raise


def under_tools(case: Case, result: CaseResult, recording: Path, setup: Setup, folder: Path) -> CaseResult:
    """The result of a case that was run under every tool. `folder` is its own."""
    if result.outcome in _NOT_LAUNCHED:
        return result
    recorded = _read(recording)
    runs = []
    for tool, doubt in setup.tools.items():
        place = folder / tool
        place.mkdir()
        look = _Look(case, result, recorded, tool, layout_for(tool, case), place)
        try:
            runs.append(_inconclusive(look, setup, doubt) if doubt else _run(look, setup))
        except Unplaceable as error:
            runs.append(_inconclusive(look, setup, f"the case cannot be laid out for it: {error}"))
        except Exception as error:  # noqa: BLE001 - kvcheck's mistake must not pass, and must not stop the run
            reason = f"kvcheck could not run this case under it: {type(error).__name__}: {error}"
            runs.append(_inconclusive(look, setup, reason.splitlines()[0]))
    return with_runs(result, tuple(runs))


def _run(look: _Look, setup: Setup) -> SanitizerRun:
    recorded, codes = look.recorded, look.result.codes
    if recorded is not None and not recorded.kernels and not codes.compared and look.result.outcome == "pass":
        # No token, or none to be stored: nothing was launched that could have touched anything.
        return SanitizerRun(look.tool, look.layout, _way(look, setup), "clean", "no kernel was launched")
    way, info = _way(look, setup), setup.info
    if way == "replay" and (recorded is None or recorded.reason):
        why = recorded.reason if recorded is not None else f"the case ended as {look.result.outcome}"
        return _inconclusive(look, setup, f"its launch was not recorded, so that --whole alone can run it: {why}")
    launch = recorded.launch if recorded is not None else 1
    scene = scene_of(
        look.case, info.contract, info.form, info.accepts, layout=look.layout, launch=launch, cuda=way == "whole"
    )
    if sum(scene.placement.allocations) > MOST_BYTES:
        return _inconclusive(look, setup, f"the case's memory is more than {MOST_BYTES >> 30} GiB")
    if way == "replay":
        assert recorded is not None
        played = replay(setup.sanitizer, look.tool, recorded, scene, look.folder, setup.timeout)
    else:
        refused = expandable(setup.environment)
        if refused is not None:
            return _inconclusive(look, setup, refused)
        moved = msgspec.structs.replace(look.case, layout=look.layout)
        asked = Asked(setup.spec, info.name, moved, launch, look.tool == "initcheck")
        played = launch_whole(setup.sanitizer, look.tool, asked, scene, look.folder, setup.timeout, setup.environment)
    right = recorded is not None and look.result.outcome in _RIGHT
    expected = single_rows(recorded, scene) if recorded is not None and right else None
    return saw(played, SanitizerRun(look.tool, look.layout, way, "clean"), expected)


def _way(look: _Look, setup: Setup) -> Way:
    if setup.way is not None:
        return setup.way
    return "whole" if look.recorded is None or look.recorded.reason else "replay"


def _inconclusive(look: _Look, setup: Setup, reason: str) -> SanitizerRun:
    return SanitizerRun(look.tool, look.layout, _way(look, setup), "inconclusive", reason)


def _read(recording: Path) -> Recording | None:
    """A recording; None where the case left none, or half of one."""
    try:
        return msgspec.msgpack.decode(recording.read_bytes(), type=Recording)
    except (OSError, msgspec.MsgspecError):
        return None


def expandable(environment: Mapping[str, str]) -> str | None:
    """Why torch's memory, as an environment sets it up, cannot be watched; None where it can."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if "expandable_segments:true" in environment.get(name, "").replace(" ", "").lower():
            return (
                f"{name} asks for expandable segments: they map memory beyond every tensor's end, where "
                "compute-sanitizer then sees no error, and reports false ones; unset it"
            )
    return None
