"""The player does what its plan says, in order, and says how far it came."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kvcheck.sanitizer.replay import player

from .driver import FakeDriver


def copies(_driver: FakeDriver, values: Sequence[int]) -> None:
    """A kernel: eight bytes from the first pointer to the second."""
    ctypes.memmove(values[1], values[0], 8)


KERNEL: dict[str, object] = {
    "name": "copies", "code": [8, 4], "grid": [3, 2, 1], "threads": 128, "shared": 64,
    "arguments": [
        {"allocation": 0, "offset": 0}, {"allocation": 1, "offset": 4}, {"data": "0500000000000000"},
        {"allocation": None, "offset": 0},
    ],
}  # fmt: skip


def plan(**changes: object) -> dict[str, object]:
    """Eight bytes uploaded to the first allocation, copied to offset 4 of the second, and downloaded from there."""
    made = {
        "device": 0, "allocations": [{"size": 8, "fence": ""}, {"size": 16, "fence": ""}],
        "uploads": [[0, 0, 0, 8]], "kernels": [KERNEL], "downloads": [[1, 0, 6], [1, 10, 4]],
    }  # fmt: skip
    return {**made, **changes}


def played(folder: Path, what: dict[str, object], driver: FakeDriver) -> tuple[int, dict[str, object], bytes]:
    """Status, result and rows."""
    path, result = folder / "plan", folder / "result"
    path.write_text(json.dumps(what), encoding="utf-8")
    (folder / "plan.data").write_bytes(b"ABCDEFGHcode")
    status = player.main(str(path), str(result), driver)
    rows = folder / "result.data"
    return status, json.loads(result.read_text()), rows.read_bytes() if rows.exists() else b""


def test_a_plan_is_played(tmp_path: Path) -> None:
    """Pointers by address, plain values as their bytes, null for no memory; what was asked for comes back."""
    driver = FakeDriver({"copies": (copies, 4)})
    status, said, rows = played(tmp_path, plan(), driver)
    bases = [ctypes.addressof(memory) for memory in driver.memory]
    assert (status, said) == (0, {"bases": bases, "stage": "done", "error": ""})
    assert rows == b"\xee\xee\xee\xeeAB" + b"GH\xee\xee"
    assert driver.modules == [b"code"]
    assert driver.launched == [("copies", (3, 2, 1, 128, 1, 1, 64), [bases[0], bases[1] + 4, 5, 0])]
    assert driver.calls.index("cuCtxSynchronize") > driver.calls.index("cuLaunchKernel")
    assert "cuFuncSetAttribute" not in driver.calls


def test_one_module_for_kernels_of_one_code(tmp_path: Path) -> None:
    """Loaded once; shared memory beyond 48 KiB is asked for."""
    driver = FakeDriver({"copies": (copies, 4)})
    status, _, _ = played(tmp_path, plan(kernels=[KERNEL, {**KERNEL, "shared": 1 << 16}]), driver)
    assert status == 0
    assert (len(driver.modules), len(driver.launched)) == (1, 2)
    assert driver.calls.count("cuFuncSetAttribute") == 1


@pytest.mark.parametrize(("fence", "offset"), [("end", 4096 - 10), ("begin", 0)])
def test_fenced_memory_ends_or_begins_at_nothing(tmp_path: Path, fence: str, offset: int) -> None:
    """One granule mapped, with addresses reserved on both sides."""
    driver = FakeDriver()
    what = plan(allocations=[{"size": 10, "fence": fence}], uploads=[], kernels=[], downloads=[[0, 2, 3]])
    status, said, _ = played(tmp_path, what, driver)
    assert (status, said["bases"]) == (0, [ctypes.addressof(driver.memory[0]) + offset])
    assert [name for name in driver.calls if name in ("cuMemCreate", "cuMemMap", "cuMemSetAccess")] == [
        "cuMemCreate", "cuMemMap", "cuMemSetAccess",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "stage"),
    [
        ("cuInit", "making a context"), ("cuMemAlloc_v2", "allocating"), ("cuMemcpyHtoD_v2", "uploading"),
        ("cuModuleLoadData", "kernel 1, copies"), ("cuLaunchKernel", "kernel 1, copies"),
        ("cuCtxSynchronize", "kernel 1, copies"), ("cuMemcpyDtoH_v2", "downloading"),
    ],
)  # fmt: skip
def test_what_fails_is_said(tmp_path: Path, call: str, stage: str) -> None:
    """The call, the driver's word for it, and where; no rows then. The status is the tool's to set."""
    status, said, rows = played(tmp_path, plan(), FakeDriver({"copies": (copies, 4)}, {call: 719}))
    assert (status, said["stage"], rows) == (0, stage, b"")
    assert said["error"] == f"{call}: CUDA_ERROR_LAUNCH_FAILED"


def test_where_there_is_no_driver(tmp_path: Path) -> None:
    """As a program of its own, without the packages of this Python: one line in the result, and no traceback."""
    (tmp_path / "plan").write_text(json.dumps(plan()), encoding="utf-8")
    (tmp_path / "plan.data").write_bytes(b"")
    command = [sys.executable, "-I", "-S", player.__file__, str(tmp_path / "plan"), str(tmp_path / "result")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"LD_LIBRARY_PATH": ""})
    said = json.loads((tmp_path / "result").read_text())
    assert (done.returncode, done.stderr) == (0, "")
    assert said["error"] != ""  # on a machine with a driver too: the code of its kernel is none
