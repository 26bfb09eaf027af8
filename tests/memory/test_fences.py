"""Fences on the CPU: one byte too far ends the process, and its folder says whose byte that was."""

from __future__ import annotations

import ctypes
import faulthandler
import importlib.util
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from kvcheck.contract import Accepts, Form
from kvcheck.memory import fences
from kvcheck.memory.arena import SLACK, Memory
from kvcheck.memory.forms import Unplaceable
from kvcheck.memory.overrun import FAULT, TABLE, fenced, overrun, watch
from kvcheck.memory.place import place
from kvcheck.schema import Case, Placement

from .scenes import CONTRACTS

CPU = torch.device("cpu")


def placement_of(layout: str, **axes: str | int) -> Placement:
    """A placement of a store with scales of its own."""
    case = Case(**{"layout": layout, **axes})  # type: ignore[arg-type] # each is of its field's type
    return place(case, CONTRACTS[0], Form(), Accepts(), cuda=False)


def dies(
    folder: Path, layout: str, name: str, touch: Callable[[int, int], object], only: tuple[str, ...] | None = None
) -> int:
    """The signal that ends a process which touches memory, given a tensor's address and the one behind its end.

    `only`: the tensors whose allocations have a fence, where not all have one.
    """
    placement = placement_of(layout)
    pid = os.fork()
    if pid == 0:  # pragma: no cover - dies
        faulthandler.disable()
        fenced = None if only is None else tuple(placement.get(each).allocation for each in only)
        memory = Memory(placement, CPU, fenced)
        table = memory.fences()
        assert table is not None
        watch(folder, table)
        (found,) = [tensors for tensors in table.tensors if name in tensors.names]
        touch(found.begin, found.end)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status)


def read(address: int) -> int:
    """The byte at an address."""
    return ctypes.c_uint8.from_address(address).value


def write(address: int) -> None:
    """Put something there."""
    ctypes.c_uint8.from_address(address).value = 1


def _said(folder: Path) -> str:
    """What is said of the fence that ended a process."""
    found = overrun(folder)
    assert found is not None
    return found.says


def test_the_byte_behind_a_fenced_tensor_ends_the_process(tmp_path: Path) -> None:
    """All of V can be read and written; the byte behind it is read, and that is what the folder says."""

    def touch(begin: int, end: int) -> None:
        write(begin)
        write(end - 1)
        read(end)

    assert dies(tmp_path, "fence", "v", touch) == signal.SIGSEGV
    assert _said(tmp_path) == "v is read 1 byte past its end, where nothing is mapped"


def test_a_distant_byte_is_told_by_its_distance(tmp_path: Path) -> None:
    """A write 100000 bytes behind the codes of K."""
    assert dies(tmp_path, "fence", "k_codes", lambda _, end: write(end + 99_999)) == signal.SIGSEGV
    assert _said(tmp_path) == "k_codes is written 100000 bytes past its end, where nothing is mapped"


def test_the_byte_before_a_tensor_that_begins_at_a_fence_ends_the_process(tmp_path: Path) -> None:
    """The other side."""
    assert dies(tmp_path, "fence-before", "slots", lambda begin, _: read(begin - 8)) == signal.SIGSEGV
    assert _said(tmp_path) == "slots is read 8 bytes before its beginning, where nothing is mapped"


def test_another_address_is_next_to_no_tensor(tmp_path: Path) -> None:
    """A null pointer has nothing to do with fences, and nothing is said of it."""
    assert dies(tmp_path, "fence", "v", lambda *_: read(64)) == signal.SIGSEGV
    assert (overrun(tmp_path), (tmp_path / FAULT).read_text()) == (None, "64 is read")


def test_a_process_that_ends_of_itself_leaves_no_address(tmp_path: Path) -> None:
    """There are fences, and nobody ran into one."""
    assert dies(tmp_path, "fence", "v", lambda *_: None) == 0
    assert (overrun(tmp_path), (tmp_path / TABLE).exists(), (tmp_path / FAULT).read_text()) == (None, True, "")


@pytest.mark.parametrize("layout", ["fence", "fence-before"])
@pytest.mark.parametrize(("only", "signal_of_v"), [((), 0), (("k",), 0), (("k", "v"), signal.SIGSEGV)])
def test_a_tensor_without_a_fence_has_room_around_it(
    tmp_path: Path, layout: str, only: tuple[str, ...], signal_of_v: int
) -> None:
    """Of the same layout some allocations alone are fenced: a megabyte past V's either side hurts only where V is."""

    def touch(begin: int, end: int) -> None:
        write(begin - (1 << 20))
        write(end + (1 << 20))

    assert dies(tmp_path, layout, "v", touch, only) == signal_of_v


def test_what_was_fenced_is_all_that_can_be_said_of_cuda(tmp_path: Path) -> None:
    """Every tensor, and the side; nothing where there are no fences."""
    assert fenced(tmp_path) is None
    assert overrun(tmp_path) is None
    assert dies(tmp_path, "fence-before", "v", lambda *_: None) == 0
    names = "k_codes, v_codes, k_scales, v_scales, slots, k, v"
    assert fenced(tmp_path) == f"CUDA does not say where; each of these begins at unmapped memory: {names}"


@pytest.mark.parametrize("layout", [*fences.FENCES, "exact"])
def test_memory_keeps_what_is_put_there(layout: str) -> None:
    """Uploaded bytes come back, and tensors see them."""
    memory = Memory(placement_of(layout, head_dim=46, align=2), CPU)
    images = tuple(np.arange(size, dtype=np.int64).astype(np.uint8) for size in memory.placement.allocations)
    memory.upload(images)
    for image, back in zip(images, memory.download(), strict=True):
        assert np.array_equal(image, back)
    slots = memory.placement.get("slots")
    raw = images[slots.allocation][slots.offset : slots.offset + 8]
    assert int(memory.tensor(slots)[0]) == int(raw.view("<i8")[0])


@pytest.mark.parametrize(("layout", "rest"), [("fence", 0), ("fence-before", 0)])
def test_fenced_tensors_lie_at_the_edge_of_a_page(layout: str, rest: int) -> None:
    """Sizes that 16 divides: each allocation's end, or beginning, is a page's."""
    memory = Memory(placement_of(layout), CPU)
    edge = 1 if layout == "fence" else 0
    assert {span[edge] % 4096 for span in memory.span()} == {rest}


def test_beyond_exact_memory_lie_zeros() -> None:
    """What lies around an allocation of exactly its size is the same in every process, and nobody's."""
    memory = Memory(placement_of("exact"), CPU)
    for begin, end in memory.span():
        assert begin % 512 == 0
        assert {read(begin - 1), read(end), read(begin - SLACK), read(end + SLACK - 1)} == {0}
    assert memory.fences() is None


def test_without_cuda_bindings_a_gpu_has_no_fences(monkeypatch: pytest.MonkeyPatch) -> None:
    """The case is not laid out, and the sentence says what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Unplaceable, match=r"pip install 'kvcheck\[cuda\]'"):
        place(Case(layout="fence"), CONTRACTS[0], Form(), Accepts(), cuda=True)
    assert place(Case(layout="fence"), CONTRACTS[0], Form(), Accepts(), cuda=False).layout == "fence"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert place(Case(layout="fence"), CONTRACTS[0], Form(), Accepts(), cuda=True).layout == "fence"
