"""What a child records of a launch: whose memory each pointer leads into, and why a launch cannot be made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from kvcheck.api import StoreTarget
from kvcheck.kernels.store import store
from kvcheck.lowering.triton_recorder import Started
from kvcheck.memory.arena import Memory
from kvcheck.memory.place import place
from kvcheck.run import recorded
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.protocol import RECORDING, Job
from kvcheck.run.recorded import RECORDED, Recorder
from kvcheck.run.result import result_of
from kvcheck.sanitizer.replay.recording import Argument, Recording
from kvcheck.schema import Case, Launch, Placement

CASE = Case(tokens=2, head_dim=16, k_view="qkv", layout="exact")


@pytest.fixture
def placement() -> Placement:
    """A case of the store's."""
    assert isinstance(store, StoreTarget)
    return place(CASE, store.contract, store.form, store.accepts, cuda=False)


@pytest.fixture
def memory(placement: Placement) -> Memory:
    """Its memory."""
    return Memory(placement, torch.device("cpu"))


def recorder(folder: Path, memory: Memory, placement: Placement, witness: Any = "record") -> Recorder:
    """For a job that asks for it."""
    return Recorder(Job(0, "store", CASE, str(folder), 60.0, witness=witness), memory, placement)


def launches() -> list[Launch]:
    """As many as a case makes."""
    return [Launch("A", "A", {"k_codes": bytes([number])}, ()) for number in range(RECORDED)]


def written(folder: Path, one: Recorder) -> Recording:
    """What it wrote."""
    one.write(launches())
    return msgspec.msgpack.decode((folder / RECORDING).read_bytes(), type=Recording)


def started(*parameters: Any, name: str = "store_kernel") -> Started:
    """A launch with these parameters."""
    return Started(name, b"cubin", (2, 1, 1), 128, 0, 0, parameters)


def told(one: Recorder, *parameters: Any) -> Argument:
    """The last parameter as it is recorded."""
    one._note(started(*parameters))
    return one._kernels[-1].arguments[-1]


def test_pointers_into_kvchecks_memory(tmp_path: Path, memory: Memory, placement: Placement) -> None:
    """The tensor that they begin at, or the one that they lead into."""
    one = recorder(tmp_path, memory, placement)
    k = memory.tensor(placement.get("k"))
    assert told(one, k) == Argument(pointer=True, tensor="k")
    assert told(one, k[1]) == Argument(pointer=True, tensor="k", delta=k.stride(0) * 2)
    assert told(one, k.data_ptr() + 2) == Argument(pointer=True, tensor="k", delta=2)
    # torch says address 0 of a tensor without elements, and so does Triton.
    assert told(one, memory.strided(placement.get("v"), (0,), (1,))) == Argument(pointer=True)


def test_a_pointer_beside_all_tensors_is_not_made_again(tmp_path: Path, memory: Memory, placement: Placement) -> None:
    """The begin of K's storage: what lies there depends on the layout, and the launch is made whole."""
    one = recorder(tmp_path, memory, placement)
    begin = memory.strided(placement.get("k"), (2, 3 * 48), (3 * 48, 1), offset=0)
    one._note(started(begin))
    distance = -placement.get("k").offset
    assert distance < 0
    assert written(tmp_path, one).reason == f"store_kernel is handed a pointer into no tensor, {distance} bytes from k"


def test_plain_values_and_nothing(tmp_path: Path, memory: Memory, placement: Placement) -> None:
    """Bytes are parameters as they are; None and 0 are null pointers."""
    one = recorder(tmp_path, memory, placement)
    assert told(one, b"\1\2") == Argument(data=b"\1\2")
    assert told(one, None) == told(one, 0) == Argument(pointer=True)


def test_memory_of_the_targets_own(tmp_path: Path, memory: Memory, placement: Placement) -> None:
    """What it held before the first kernel that was handed it, once, and how far the pointer leads into it."""
    one = recorder(tmp_path, memory, placement)
    own = torch.arange(8, dtype=torch.uint8)
    assert told(one, own) == Argument(pointer=True, own=0)
    own += 1
    assert told(one, own[3:]) == Argument(pointer=True, own=0, delta=3)
    assert told(one, torch.zeros(2)) == Argument(pointer=True, own=1)
    found = written(tmp_path, one)
    assert found.own == (bytes(range(8)), bytes(8))
    assert (found.reason, found.launch, found.rows) == ("", RECORDED, {"k_codes": b"\2"})
    assert [kernel.grid for kernel in found.kernels] == [(2, 1, 1)] * 3


def test_what_cannot_be_made_again_is_said(
    tmp_path: Path, memory: Memory, placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pointers of nobody's, tables of addresses, too much memory, too many kernels: the first of them, in one line."""
    tables = torch.tensor([memory.span()[0][0]])
    for parameter, says in [(12345678, "neither kvcheck's nor a tensor's"), (tables, "holds addresses")]:
        one = recorder(tmp_path, memory, placement)
        one._note(started(parameter))
        one._note(started(None))
        assert says in written(tmp_path, one).reason
        assert not one._kernels
    monkeypatch.setattr(recorded, "MOST_OWN", 4)
    one = recorder(tmp_path, memory, placement)
    one._note(started(torch.zeros(2)))
    assert "own memory is more than" in written(tmp_path, one).reason
    monkeypatch.setattr(recorded, "MOST_KERNELS", 1)
    one = recorder(tmp_path, memory, placement)
    one._note(started(None))
    one._note(started(None))
    assert "more than 1 kernels" in written(tmp_path, one).reason


def test_nothing_is_recorded_that_was_not_asked_for(tmp_path: Path, memory: Memory, placement: Placement) -> None:
    """No file, nor where the launch was never reached."""
    one = recorder(tmp_path, memory, placement, "")
    with one.launch(RECORDED):
        pass
    one.write(launches())
    recorder(tmp_path, memory, placement).write(launches()[:1])
    assert not (tmp_path / RECORDING).exists()


def test_launches_that_slip_by_are_said(tmp_path: Path) -> None:
    """In the interpreter no kernel is compiled: the launch is seen, nothing is recorded, and the file says so."""
    with Nursery("store", Options(device="cpu", jobs=1)) as nursery:
        (info,) = nursery.hello.targets
        job = Job(0, "store", CASE, str(tmp_path), 60.0, witness="record")
        nursery.submit(job)
        result = result_of(CASE, nursery.next_ended(), tmp_path, info, expect_declared=False)
    assert result.outcome == "pass"
    found = msgspec.msgpack.decode((tmp_path / RECORDING).read_bytes(), type=Recording)
    assert found.reason == "0 of 1 launches were recorded"
    assert set(found.rows) == {"k_codes", "v_codes", "k_scales", "v_scales"}


def test_a_triton_without_such_internals(
    tmp_path: Path, memory: Memory, placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launch is made all the same."""

    def refuses(_listener: object) -> None:
        raise AttributeError("no such thing")

    monkeypatch.setattr(recorded, "recording", refuses)
    one = recorder(tmp_path, memory, placement)
    with one.launch(RECORDED):
        pass
    assert written(tmp_path, one).reason == "this Triton's launches cannot be recorded: no such thing"


def test_no_kernel_at_all(tmp_path: Path, memory: Memory, placement: Placement) -> None:
    """Said too: of such a launch there is nothing to make again."""
    one = recorder(tmp_path, memory, placement)
    with one.launch(RECORDED):
        pass
    assert written(tmp_path, one).reason == "no Triton kernel was launched"
