"""One launch by the target's own process: the rows that the isolated run left, and what goes wrong said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sanitizer.replay.test_plan import SEED

from kvcheck.api import StoreTarget
from kvcheck.kernels.store import store
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import RECORDING, Job
from kvcheck.run.replayed import scene_of, single_rows
from kvcheck.run.whole import Asked
from kvcheck.sanitizer.replay.recording import Recording
from kvcheck.schema import Case

from .command import environment

CASE = msgspec.structs.replace(SEED, tokens=3)


def launched(folder: Path, asked: Asked) -> tuple[int, dict[str, Any], bytes]:
    """In a process of its own, as under a tool, but in the interpreter."""
    (folder / "asked").write_bytes(msgspec.json.encode(asked))
    command = [sys.executable, "-m", "kvcheck.run.whole", str(folder / "asked"), str(folder / "result")]
    done = subprocess.run(command, env={**environment(), "TRITON_INTERPRET": "1"}, capture_output=True, check=False)
    rows = folder / "result.data"
    return done.returncode, json.loads((folder / "result").read_text()), rows.read_bytes() if rows.exists() else b""


@pytest.mark.parametrize(("layout", "sparse"), [("exact", False), ("pooled", True)])
def test_the_rows_are_those_of_the_isolated_run(tmp_path: Path, layout: str, sparse: bool) -> None:
    """Though memory is laid out otherwise, and though only what a kernel may read was uploaded."""
    assert isinstance(store, StoreTarget)
    with Nursery("store", Options(device="cpu", jobs=1)) as nursery:
        nursery.submit(Job(0, "store", CASE, str(tmp_path), 60.0, witness="record"))
        assert nursery.next_ended().exit == 0
    recorded = msgspec.msgpack.decode((tmp_path / RECORDING).read_bytes(), type=Recording)
    moved = msgspec.structs.replace(CASE, layout=layout)
    status, said, rows = launched(tmp_path, Asked("store", "store", moved, recorded.launch, sparse, "cpu"))
    scene = scene_of(
        CASE, store.contract, store.form, store.accepts, layout=layout, launch=recorded.launch, cuda=True
    )  # fmt: skip
    assert (status, said["error"], said["stage"]) == (0, "", "done")
    assert len(said["bases"]) == len(scene.placement.allocations)
    assert rows == b"".join(single_rows(recorded, scene).values())
    assert len(rows) == 3 * 2 * (384 + 12)


@pytest.mark.parametrize(
    ("asked", "stage", "says"),
    [
        (Asked("store", "other", CASE, 1, False, "cpu"), "loading the target", "ValueError"),
        (Asked("absent.py", "store", CASE, 1, False, "cpu"), "loading the target", "TargetError: target 'absent.py'"),
        (Asked("store", "store", Case(layout="nowhere"), 1, False, "cpu"), "placing the case", "layout 'nowhere'"),
    ],
)
def test_what_goes_wrong_is_said(tmp_path: Path, asked: Asked, stage: str, says: str) -> None:
    """How far it came, and one line."""
    status, said, rows = launched(tmp_path, asked)
    assert (status, said["stage"], rows) == (0, stage, b"")
    assert says in said["error"]


DIES = """
import os

import kvcheck
from kvcheck.kernels.store import CONTRACT


@kvcheck.store_target("dies", contract=CONTRACT)
def dies(k, v, slots, cache):
    os._exit(9)
"""


def test_whose_memory_it_was_is_told_before_the_launch(tmp_path: Path) -> None:
    """A kernel that fails may take the process with it."""
    path = tmp_path / "dies.py"
    path.write_text(DIES, encoding="utf-8")
    status, said, rows = launched(tmp_path, Asked(str(path), "dies", CASE, 1, False, "cpu"))
    assert (status, said["stage"], said["error"], rows) == (9, "the launch", "the process ended", b"")
    assert len(said["bases"]) == 1
