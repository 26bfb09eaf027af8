"""A recorded launch laid out anew: what is uploaded, where pointers lead, which rows come back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import triton

from kvcheck.api import StoreTarget
from kvcheck.kernels.store import store
from kvcheck.run.replayed import layout_for, scene_of, single_rows
from kvcheck.sanitizer.replay.known_bad import KNOWN_BAD, kernel
from kvcheck.sanitizer.replay.plan import MOST_UPLOADS, Plan, Scene, Span, joined, known, spans
from kvcheck.sanitizer.replay.recording import Argument, KernelLaunch, Recording
from kvcheck.schema import Case, Placed, Placement

SEED = Case(k_view="qkv", v_view="dense", k_values="normal*5", v_values="normal*0.01", layout="arena")
ROW = 3 * 128


def scene(case: Case, layout: str) -> Scene:
    """A case of kvcheck's own store, in that layout, as it stands before launch 3."""
    assert isinstance(store, StoreTarget)
    return scene_of(case, store.contract, store.form, store.accepts, layout=layout, launch=3)


def written(folder: Path, recording: Recording, where: Scene, *, sparse: bool = False) -> tuple[Any, bytes]:
    """A plan as it lies on disk."""
    Plan(recording, where, device=0, sparse=sparse).write(folder / "plan")
    return json.loads((folder / "plan").read_text()), (folder / "plan.data").read_bytes()


def test_what_a_kernel_may_read_is_uploaded_and_nothing_else() -> None:
    """The elements of K, V and the slots: no gap of the qkv tensor, no cache, no slab around them."""
    where = scene(SEED, "pooled")
    found = known(where)
    k, v, slots = (where.placement.get(name) for name in ("k", "v", "slots"))
    wanted = [Span(0, slots.offset, 64)] + [Span(0, k.offset + row * 2304, 2 * ROW) for row in range(8)]
    assert found == [*wanted, Span(0, v.offset, 8 * 2 * ROW)]
    assert where.placement.allocations == (2 << 20,)


def test_rows_of_a_case_are_those_of_its_recording() -> None:
    """Eight tokens, eight rows of each tensor; of tokens that share a slot neither's, since either may be last."""
    for slots, tokens, rows in (
        ("ascending", 8, 8),
        ("duplicates", 5, 1),
        ("duplicates", 8, 0),
        ("negative_mixed", 3, 2),
        ("negative_mixed", 1, 0),
    ):
        where = scene(Case(slots=slots, tokens=tokens, layout="arena"), "exact")
        count = len(where.rows["k_codes"])
        assert len(where.due["k_codes"]) == rows
        left = {
            name: np.arange(count, dtype=np.uint8).repeat(ROW if "codes" in name else 12).tobytes()
            for name in where.due
        }
        kept = single_rows(Recording((), (), left, 3), where)
        ids, times = np.unique(where.rows["k_codes"], return_counts=True)
        alone = [index for index, slot in enumerate(where.rows["k_codes"]) if slot in ids[times == 1]]
        assert kept["k_codes"] == np.array(alone, np.uint8).repeat(ROW).tobytes()
        assert kept["k_scales"] == np.array(alone, np.uint8).repeat(12).tobytes()


@pytest.mark.parametrize(
    ("tool", "layout", "wanted"),
    [
        ("initcheck", "arena", "pooled"), ("memcheck", "arena", "exact"), ("memcheck", "fence", "fence"),
        ("memcheck", "fence-before", "fence-before"), ("initcheck", "fence", "pooled"), ("racecheck", "fence", "exact"),
    ],
)  # fmt: skip
def test_each_tool_has_the_layout_in_which_it_sees(tool: str, layout: str, wanted: str) -> None:
    """A case that has fences keeps them under memcheck."""
    assert layout_for(tool, Case(layout=layout)) == wanted


def test_fences_are_the_players() -> None:
    """One allocation a tensor, fenced on the layout's side."""
    for layout, fence in (("fence", "end"), ("fence-before", "begin"), ("exact", "")):
        assert scene(SEED, layout).fence == fence


def test_pointers_lead_where_they_led(tmp_path: Path) -> None:
    """As far past the same tensor, wherever that lies now; past the target's own memory; nowhere."""
    where = scene(SEED, "exact")
    arguments = (
        Argument(pointer=True, tensor="v", delta=32), Argument(data=b"\x01\x02"), Argument(pointer=True),
        Argument(pointer=True, own=1, delta=4), Argument(pointer=True, own=0),
    )  # fmt: skip
    one = KernelLaunch("f", b"cubin", (8, 1, 1), 128, 0, 16, arguments)
    plan, data = written(tmp_path, Recording((one, one), (b"", b"workspace"), {}, 3), where)
    placement = where.placement
    v = placement.get("v")
    kernel_, second = plan["kernels"]
    own = len(placement.allocations)
    assert kernel_["arguments"] == [
        {"allocation": v.allocation, "offset": v.offset + 32}, {"data": "0102"}, {"allocation": None, "offset": 0},
        {"allocation": own + 1, "offset": 4}, {"allocation": own, "offset": 0},
        {"allocation": own + 2, "offset": 0}, {"allocation": None, "offset": 0},
    ]  # fmt: skip
    sizes = [each["size"] for each in plan["allocations"]]
    assert sizes == [*placement.allocations, 1, 9, 16 * 8, 16 * 8]
    assert kernel_["code"] == second["code"]
    start, length = kernel_["code"]
    assert data[start : start + length] == b"cubin"
    uploads = {(allocation, offset): data[at : at + size] for allocation, offset, at, size in plan["uploads"]}
    assert uploads[own + 1, 0] == b"workspace"
    assert uploads[v.allocation, 0] == where.images[v.allocation].tobytes()


def test_sparse_plans_upload_the_image_where_it_is_known(tmp_path: Path) -> None:
    """V's own bytes, and nothing of the caches."""
    where = scene(SEED, "pooled")
    plan, data = written(tmp_path, Recording((), (), {}, 3), where, sparse=True)
    v = where.placement.get("v")
    assert len(plan["uploads"]) == 10
    (found,) = (data[at : at + size] for _, offset, at, size in plan["uploads"] if offset == v.offset)
    assert found == where.images[0][v.offset :][: 8 * 2 * ROW].tobytes()
    assert sum(length for _, _, length in plan["downloads"]) == 2 * 8 * (ROW + 12)


def test_bytes_as_runs() -> None:
    """Runs without a gap, in order, also backwards; none of nothing."""
    assert spans(2, np.array([[4, 5], [6, 9]])) == [Span(2, 4, 3), Span(2, 9, 1)]
    assert spans(0, np.array([8, 9, 0, 1])) == [Span(0, 8, 2), Span(0, 0, 2)]
    assert spans(0, np.zeros((0, 4), np.int64)) == []


def test_too_many_runs_go_together_by_the_narrowest_gaps() -> None:
    """No byte that was to be uploaded is lost, two allocations are never one run, and wide gaps stay gaps."""
    runs = [Span(0, 4 * index, 2) for index in range(2 * MOST_UPLOADS)]
    runs += [Span(0, 10_000_000, 2), Span(1, 0, 2)]
    found = joined(runs)
    assert found == [Span(0, 0, 4 * 2 * MOST_UPLOADS - 2), Span(0, 10_000_000, 2), Span(1, 0, 2)]
    few = [Span(0, 100, 2), Span(0, 104, 2)]
    assert joined(few) == few


def test_known_bad_kernels_are_programs_of_their_names() -> None:
    """PTX that ends in a zero byte, an entry of the launch's name, two pointers."""
    for name, threads in (*KNOWN_BAD.values(), ("right", 1)):
        made = kernel(name, threads)
        assert made.code.endswith(b"}\n\0")
        assert f".entry {made.name}(".encode() in made.code
        assert [argument.tensor for argument in made.arguments] == ["k", "k_codes"]
        assert made.threads == threads


@pytest.mark.parametrize("name", [*(name for name, _ in KNOWN_BAD.values()), "right"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_known_bad_kernels_assemble(tmp_path: Path, name: str, arch: str) -> None:
    """By the assembler that Triton brings, for the oldest arch and the newest."""
    (assembler, *_) = sorted(Path(triton.__file__).parent.glob("backends/nvidia/bin/ptxas*"))
    (tmp_path / "kernel.ptx").write_bytes(kernel(name, 1).code.rstrip(b"\0"))
    command = [str(assembler), "--gpu-name", arch, str(tmp_path / "kernel.ptx"), "-o", str(tmp_path / "kernel.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_scenes_by_hand() -> None:
    """Half of an allocation that is an input; an output of which nothing is known."""
    k = Placed("k", 0, 0, "uint8", (1, 1, 4), (4, 4, 1))
    out = Placed("k_codes", 1, 0, "uint8", (1, 1, 1, 4), (4, 4, 4, 1))
    placement = Placement("exact", (8, 4), (k, out), (), 1, independence=False)
    images = tuple(np.zeros(size, np.uint8) for size in placement.allocations)
    assert known(Scene(placement, "", images, {"k_codes": np.array([0])}, {})) == [Span(0, 0, 4)]
