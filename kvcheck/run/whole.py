"""One launch of a case by the target's own process, torch and all: what runs under a tool where nothing is replayed.

Started as `python -m kvcheck.run.whole ASKED RESULT`. The result is as of `kvcheck.sanitizer.replay.player`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from kvcheck.schema import Case


class Asked(msgspec.Struct, frozen=True):
    """What to launch: a target, and a case in the layout in which the tool sees."""

    spec: str
    target: str
    case: Case
    launch: int
    """Which of the case's launches it is made like, from 1."""
    sparse: bool
    """Upload only what a kernel may read, so that all else is uninitialised."""
    device: str = "cuda"


def main(asked: str, result: str) -> int:
    """Launch once and write what came of it. 0 whatever that is, as of the player."""
    what = msgspec.json.decode(Path(asked).read_bytes(), type=Asked)
    said: dict[str, object] = {"bases": [], "stage": "loading the target", "error": ""}
    try:
        _launch(what, said, Path(result))
        said["stage"] = "done"
    except Exception as error:  # noqa: BLE001 - whatever a target raises
        lines = str(error).splitlines() or [""]
        said["error"] = f"{type(error).__name__}: {lines[0]}"
    _write(said, Path(result))
    return 0


def _write(said: dict[str, object], result: Path) -> None:
    result.write_text(json.dumps(said), encoding="utf-8")


def _launch(what: Asked, said: dict[str, object], result: Path) -> None:
    import torch  # noqa: PLC0415 - seconds, which a mistake in what was asked need not cost

    from kvcheck.draw.image import case_inputs  # noqa: PLC0415
    from kvcheck.memory.arena import Memory  # noqa: PLC0415
    from kvcheck.run.case import caller  # noqa: PLC0415
    from kvcheck.run.replayed import scene_of  # noqa: PLC0415
    from kvcheck.sanitizer.replay.plan import known, spans, whole  # noqa: PLC0415
    from kvcheck.targets.engine import add_engine_roots  # noqa: PLC0415
    from kvcheck.targets.load import load  # noqa: PLC0415

    add_engine_roots()
    (target,) = (one.target for one in load(what.spec) if one.target.name == what.target)
    if target.prepare is not None:
        target.prepare()
    case, device = what.case, torch.device(what.device)
    said["stage"] = "placing the case"
    scene = scene_of(
        case, target.contract, target.form, target.accepts, layout=case.layout, launch=what.launch, cuda=True
    )
    memory = Memory(scene.placement, device)
    said["bases"] = [begin for begin, _ in memory.span()]
    said["stage"] = "uploading"
    for span in known(scene) if what.sparse else whole(scene.placement):
        memory.write(span.allocation, span.offset, scene.images[span.allocation][span.offset :][: span.length])
    said["stage"] = "the launch"
    # Where a kernel has failed torch may end the process as it frees memory: whose memory it was is told before.
    _write({**said, "error": "the process ended"}, result)
    inputs = case_inputs(scene.placement, case, target.contract)
    caller(target, case, memory, scene.placement, inputs)()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    said["stage"] = "downloading"
    rows = [
        memory.read(span.allocation, span.offset, span.length)
        for name, offsets in scene.due.items()
        for span in spans(scene.placement.get(name).allocation, offsets)
    ]
    result.with_name(f"{result.name}.data").write_bytes(b"".join(rows))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
