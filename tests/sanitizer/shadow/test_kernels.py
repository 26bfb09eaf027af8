"""Kernels that read and write what they must not: every access named by its line, and none of a right one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from kvcheck.api import Cache, Side
from kvcheck.contract import LoadContract
from kvcheck.kernels.store import launch as store
from kvcheck.sanitizer.shadow.watch import watch
from kvcheck.schema import Case, SanitizerRun
from sanitizer.shadow import kernels
from sanitizer.shadow.scene import Scene, at, marked, scene, watched

FILE = kernels.__file__
CASE = Case(tokens=3, heads=1, head_dim=16, layout="arena", slots="permuted")

Kernel = Callable[..., None]


def run(kernel: object, case: Case = CASE, programs: int = 1) -> tuple[Scene, SanitizerRun]:
    """A kernel on a case's tensors."""
    here = scene(case)
    names = ("k", "v", "slots", "k_codes", "v_codes", "k_scales", "v_scales")
    tensors = [here.tensor(name) for name in names]
    pitch = here.rows("k_codes").stride(0)
    return here, watched(here, lambda: kernel[(programs,)](*tensors, pitch, SIZE=16))  # type: ignore[index]


def test_right_kernel_is_clean() -> None:
    """Loads of inputs, stores to addressed rows, a load of what was just stored, lanes that a mask leaves out."""
    _, seen = run(kernels.right, programs=3)
    assert (seen.state, seen.records, seen.counted) == ("clean", (), 0)
    assert seen.reason == ""


def test_uninitialised_read() -> None:
    """Codes that nothing has stored, read where nobody says slot 0 is addressed, and in a function of the kernel's."""
    _, seen = run(kernels.reads)
    (record,) = at(seen, FILE, "uninitialised")
    assert (record.kind, record.access, record.tensor, record.side) == ("uninitialised", "read", "k_codes", "inside")
    assert (record.count, record.size, record.tokens, record.heads) == (16, 1, (0,), (0,))
    assert record.source.startswith("old = tl.load(k_codes + lane)")
    assert record.made == ""
    assert record.says == "reads what nothing has stored: K's codes, slot 0, head 0"
    (inner,) = at(seen, FILE, "helper")
    assert (inner.kind, inner.tensor, inner.kernel) == ("uninitialised", "v_codes", "reads")
    assert inner.host == (f"{FILE}:{marked(FILE, 'called: uninitialised')} reads",)


def test_reads_outside() -> None:
    """Past the end of one tensor, and before the start of another: how far, counted in bytes."""
    _, seen = run(kernels.reads)
    (past,) = at(seen, FILE, "out-of-bounds")
    # 3 ids of 8 bytes: 16 * 64 elements further begins 1021 ids past the end.
    assert (past.kind, past.tensor, past.side, past.through) == ("out-of-bounds", "slots", "after", "slots")
    assert (past.first, past.last) == (1021 * 8, 1036 * 8)
    (before,) = at(seen, FILE, "before")
    assert (before.kind, before.tensor, before.side) == ("out-of-bounds", "v", "before")
    assert (before.first, before.last, before.count) == (2, 32, 16)
    assert "2 to 32 bytes before the start of V" in before.says


def test_writes_to_what_is_not_due() -> None:
    """A slot that no token names, an input, and an atomic on a scale that nothing has stored."""
    here, seen = run(kernels.writes)
    assert 5 not in here.slots
    (other,) = at(seen, FILE, "other slot")
    assert (other.kind, other.access, other.tensor, other.tokens) == ("stray", "write", "k_codes", (5,))
    (given,) = at(seen, FILE, "input")
    assert (given.kind, given.tensor, given.tokens) == ("stray", "k", (0,))
    (atomic,) = at(seen, FILE, "atomic")
    assert (atomic.kind, atomic.access, atomic.tensor) == ("uninitialised", "atomic", "k_scales")
    assert atomic.tokens == (int(here.slots[0]),)


def test_one_access_through_two_arguments() -> None:
    """Lanes of K's pointer and lanes of V's in one load: each is judged by its own, and the far ones load zeros."""
    here, seen = run(kernels.mixed)
    (record,) = at(seen, FILE, "mixed")
    assert (record.tensor, record.through, record.kind, record.count) == ("v", "v", "out-of-bounds", 8)
    assert record.says.endswith("outside every allocation")
    stored = here.rows("k_codes")[int(here.slots[0]), 0]
    assert stored[8:].tolist() == [0] * 8


def test_programs_are_folded() -> None:
    """Three programs at one line are one record."""
    here, seen = run(kernels.writes, programs=3)
    (record,) = at(seen, FILE, "other slot")
    assert (record.blocks, record.count) == ("0-2", 48)
    assert 5 not in here.slots


@pytest.mark.parametrize(("away", "state"), [(0, "clean"), (-(1 << 20), "inconclusive")])
def test_pointer_made_of_an_integer(away: int, state: str) -> None:
    """It may reach kvcheck's tensors; where it leads elsewhere nobody can say what lies there, so nothing is clean."""
    here = scene(CASE)
    address, slots, codes = here.tensor("k").data_ptr(), here.tensor("slots"), here.tensor("k_codes")
    pitch = here.rows("k_codes").stride(0)
    seen = watched(here, lambda: kernels.by_integer[(1,)](address, away, slots, codes, pitch, SIZE=16))
    assert seen.state == state
    assert seen.records == ()
    assert ("16 accesses" in seen.reason) == (state == "inconclusive")


def test_integer_into_a_guard() -> None:
    """A pointer made of an integer that leads between kvcheck's tensors is wrong whatever it was meant for."""
    here = scene(CASE)
    address, slots, codes = here.tensor("k").data_ptr(), here.tensor("slots"), here.tensor("k_codes")
    pitch = here.rows("k_codes").stride(0)
    seen = watched(here, lambda: kernels.by_integer[(1,)](address, 3 * 16, slots, codes, pitch, SIZE=16))
    (record,) = at(seen, FILE, "integer")
    assert (record.kind, record.tensor, record.through) == ("out-of-bounds", "", "")


@pytest.mark.parametrize(("start", "kinds"), [(0, []), (16, []), (24, ["out-of-bounds"]), (1 << 40, ["out-of-bounds"])])
def test_memory_of_the_targets_own(start: int, kinds: list[str]) -> None:
    """It may be read and written to its last byte, and no further; nobody knows what is set in it."""
    here = scene(CASE)
    own, slots, codes = torch.zeros(32), here.tensor("slots"), here.tensor("k_codes")
    pitch = here.rows("k_codes").stride(0)
    seen = watched(here, lambda: kernels.scratch[(1,)](own, slots, codes, pitch, start, SIZE=16))
    assert [record.kind for record in seen.records] == kinds
    for record in seen.records:
        assert (record.line, record.tensor, record.through) == (marked(FILE, "scratch"), "", "own")
        assert (record.first, record.last) == (max(start - 32, 0) * 4, (start + 15 - 32) * 4)
        assert "past the end of argument own, the target's own" in record.says


def test_line_that_made_the_address() -> None:
    """An address computed in another line than it is read at: both are named, through a broadcast."""
    here = scene(CASE)
    tensors = (here.tensor("k"), here.tensor("slots"), here.tensor("k_codes"))
    seen = watched(here, lambda: kernels.elsewhere[(1,)](*tensors, here.rows("k_codes").stride(0), SIZE=16))
    (record,) = at(seen, FILE, "far from it")
    assert (record.kind, record.count, record.first, record.last) == ("out-of-bounds", 64, 2, 8)
    assert record.made == f"{FILE}:{marked(FILE, 'made')} place_of"


def test_load_target() -> None:
    """It may read the rows that the slots name, and write the tokens that are not skipped; nothing else."""
    here = scene(Case(tokens=3, heads=1, head_dim=16, slots="negative_mixed"), LoadContract(out="fp32"))
    kept, skipped = (int(np.flatnonzero(which)[0]) for which in (here.slots >= 0, here.slots < 0))
    named = int(here.slots[kept])
    other = next(slot for slot in range(here.placement.slots) if slot not in here.slots)
    out = here.tensor("out_k")
    tensors = (here.tensor("k_codes"), here.tensor("k_scales"), out, here.rows("k_codes").stride(0), out.stride(0))
    seen = watched(here, lambda: kernels.loads[(1,)](*tensors, named, named, kept, SIZE=16))
    assert (seen.state, seen.records) == ("clean", ())
    seen = watched(here, lambda: kernels.loads[(1,)](*tensors, named, other, skipped, SIZE=16))
    (row,), (token,) = at(seen, FILE, "another row"), at(seen, FILE, "a token")
    assert (row.kind, row.tensor, row.tokens) == ("uninitialised", "k_codes", (other,))
    assert (token.kind, token.access, token.tensor, token.tokens) == ("stray", "write", "out_k", (skipped,))


def test_misaligned() -> None:
    """Words of four bytes at addresses that are none of theirs: a GPU traps."""
    here = scene(CASE)
    tensors = (here.tensor("k_scales"), here.tensor("slots"), here.tensor("k_codes"))
    seen = watched(here, lambda: kernels.askew[(1,)](*tensors, here.rows("k_codes").stride(0), SIZE=16))
    (record,) = at(seen, FILE, "misaligned")
    assert (record.kind, record.tensor, record.size, record.count) == ("misaligned", "k_codes", 4, 2)


def test_gap_and_sibling() -> None:
    """K's heads taken to be dense: the gap behind a head is read. V within a tensor of both, at K's offset: K is."""
    here = scene(Case(tokens=2, heads=2, head_dim=64, k_view="head_padded", v_view="dense"))
    dense = (2 * 80, 64, 1)
    seen = watched(here, lambda: _store(here, k_strides=dense))
    assert {(record.kind, record.tensor, record.memory) for record in seen.records} == {("gap", "k", "")}
    (record,) = seen.records
    assert (record.side, record.count, record.host[0].endswith("store_kernel")) == ("gap", 2 * 16, True)
    both = scene(Case(tokens=2, heads=2, head_dim=64, k_view="kv", v_view="kv"))
    head, *rest = both.tensor("v").stride()
    seen = watched(both, lambda: _store(both, v_strides=(head // 2, *rest)))
    assert {(record.kind, record.tensor, record.memory) for record in seen.records} == {("foreign", "v", "k")}
    (record,) = seen.records
    assert (record.count, record.blocks) == (128, "1")
    assert record.says.startswith(
        "reads outside the elements of V (token 1 at pitch 128, that of dense rows; V's is 256)"
    )
    assert record.says.endswith(", on K, token 1, heads 0-1")


def _store(here: Scene, k_strides: tuple[int, ...] | None = None, v_strides: tuple[int, ...] | None = None) -> None:
    sides = {
        side: Side(side, {"codes": here.rows(f"{side}_codes"), "scales": here.rows(f"{side}_scales")}, {})
        for side in ("k", "v")
    }
    k, v = here.tensor("k"), here.tensor("v")
    cache = Cache(
        slots=here.placement.slots, page=1, heads=k.shape[1], head_dim=k.shape[2], head_dim_v=v.shape[2], **sides,
        fused_pages=None, fused_given=None, block_tables=None, layers=1, layer=0,
    )  # fmt: skip
    store(k, v, here.tensor("slots"), cache, k_strides=k_strides, v_strides=v_strides)


def test_only_a_later_launch() -> None:
    """What the first launch does not do is counted in the launch that does it first, and said."""
    here = scene(CASE)
    names = ("k", "v", "slots", "k_codes", "v_codes", "k_scales", "v_scales")
    tensors = [*(here.tensor(name) for name in names), here.rows("k_codes").stride(0)]
    rows = dict.fromkeys(("k_codes", "v_codes", "k_scales", "v_scales"), here.slots)
    with watch(here.placement, tuple(start for start, _ in here.memory.span()), rows) as seen:
        for number, kernel in enumerate((kernels.right, kernels.writes, kernels.writes), 1):
            seen.begin(number)
            kernel[(1,)](*tensors, SIZE=16)
    (record,) = at(seen.run(), FILE, "other slot")
    assert record.count == 16
    assert record.says.endswith("head 0 (only from launch 2 on)")


def test_stores_that_no_kernel_made() -> None:
    """torch stores a code: shadow memory did not see who, and vouches for nothing."""
    here = scene(CASE)
    seen = watched(here, lambda: here.tensor("k_codes").add_(1))  # type: ignore[arg-type]
    assert seen.state == "inconclusive"
    assert "bytes changed that no Triton kernel was seen to store" in seen.reason


def test_nothing_launched() -> None:
    """No launch and no change is clean, and said."""
    here = scene(CASE)
    seen = watched(here, lambda: None)
    assert (seen.state, seen.reason) == ("clean", "no Triton kernel was launched")
