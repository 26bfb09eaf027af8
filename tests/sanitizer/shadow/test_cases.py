"""Whole cases in processes of their own: what is recorded, what is vouched for, and that the bytes stay the same."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from kvcheck.draw.image import case_inputs
from kvcheck.kernels import store
from kvcheck.matrix.load import load_cases
from kvcheck.memory.arena import Memory
from kvcheck.run import shadowed
from kvcheck.run.protocol import SHADOW, Job
from kvcheck.run.shadow_seen import read
from kvcheck.schema import Case
from sanitizer.shadow.running import Shadowed, shadow
from sanitizer.shadow.scene import marked, scene

STORE = str(Path(store.__file__))
TARGETS = Path(__file__).parent / "targets" / "doubtful.py"
FAULTS = Path(__file__).parents[2] / "faults" / "kernels"

#: The case that kvcheck grew from.
SEED = Case(k_view="qkv", v_view="dense", k_values="normal*5", v_values="normal*0.01", layout="pooled")
SMALL = Case(tokens=2, head_dim=16)


def line_of(file: str, text: str) -> int:
    """The one line of a file that begins with this text."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    (line,) = (number for number, each in enumerate(lines, 1) if each.strip().startswith(text))
    return line


def marked_after(file: str, begin: str, text: str) -> int:
    """The first line that begins with `text` after the one that begins with `begin`."""
    lines = [each.strip() for each in Path(file).read_text(encoding="utf-8").splitlines()]
    start = next(number for number, each in enumerate(lines) if each.startswith(begin))
    return next(number for number, each in enumerate(lines, 1) if number > start and each.startswith(text))


@cache
def seed(*, watched: bool = True) -> Shadowed:
    """The seed's case, with the specimen that it is about."""
    (one,) = shadow("specimen:shared-pitch", {"specimen:shared-pitch": [SEED]}, watched=watched)[
        "specimen:shared-pitch"
    ]
    return one


def test_the_case_that_kvcheck_grew_from() -> None:
    """V read with K's pitch: tokens 3 to 7 lie past V's end, token 6 by 7 680 bytes, all at the line of the load."""
    (record,) = seed().run.records
    assert (record.file, record.line) == (STORE, line_of(STORE, "value = tl.load(row + heads * source_head"))
    assert (record.kernel, record.kind, record.access, record.size) == ("store_kernel", "out-of-bounds", "read", 2)
    assert (record.tensor, record.through, record.side, record.memory) == ("v", "v", "after", "")
    assert (record.pitch, record.tokens, record.heads) == (1152, (3, 4, 5, 6, 7), (0, 1, 2))
    assert (record.first, record.last) == (3 * 2304 - 6144, 7 * 2304 - 6144 + 766)
    assert 3 * 2304 - 6144 + 3 * 2304 == 7680
    assert (record.blocks, record.count) == ("3-7", 5 * 384)
    # The function's call for V begins in the line before V's arguments.
    assert record.host == (f"{STORE}:{line_of(STORE, 'v, v_codes, v_scales, token, slot') - 1} store_kernel",)
    assert record.says == "reads 768 to 10 750 bytes past the end of V (tokens 3-7 at pitch 1152, K's; V's is 384)"
    run = seed().run
    assert (run.tool, run.way, run.memory, run.state, run.counted) == (
        "shadow",
        "interpreted",
        "pooled",
        "records",
        1920,
    )


def test_bytes_are_those_of_a_run_without_a_witness() -> None:
    """Being watched changes no byte and no verdict."""
    plain = seed(watched=False)
    assert plain.run.state == "inconclusive"  # nobody watched
    assert seed().result.digest == plain.result.digest
    assert seed().result.codes == plain.result.codes
    assert plain.result.codes.wrong > 2000


@pytest.mark.parametrize("target", ["store", "native-cast", "conch"])
def test_right_kernels_are_clean(target: str) -> None:
    """Over a part of the default matrix; conch, where rows are dense and K and V lie alike, as it takes them to be."""
    cases = [case for case in load_cases(["default"]) if case.tokens][::25]
    if target == "conch":
        cases = [Case(tokens=3), Case(tokens=3, layout="pooled", slots="permuted"), Case(tokens=2, dtype="fp16")]
    for one in shadow(target, {target: cases})[target]:
        assert (one.run.state, one.run.records, one.run.reason, one.result.outcome) == ("clean", (), "", "pass")


def test_more_than_the_judge_can_see() -> None:
    """A gap that is read and happens not to matter: the bytes are right, and the read is there all the same."""
    case = Case(tokens=1, v_view="every_second", k_values="overflow*2^-3", v_values="traps", layout="recycled")
    (one,) = shadow(FAULTS / "poison.py", {"gap-read": [case]})["gap-read"]
    assert one.result.outcome == "pass"
    file = FAULTS / "poison.py"
    line = marked_after(str(file), "def larger_behind(", "behind = tl.load(")
    assert {(record.line, record.tensor) for record in one.run.records} == {(line, "k"), (line, "v")}


@cache
def doubtful() -> dict[str, list[Shadowed]]:
    """Targets of which not everything can be seen."""
    return shadow(TARGETS, {name: [SMALL] for name in ("by-torch", "fails", "leaves")})


def test_stores_by_torch_are_not_vouched_for() -> None:
    """A byte that changed and that no kernel stored: nothing is clean."""
    (one,) = doubtful()["by-torch"]
    assert (one.run.state, one.run.records) == ("inconclusive", ())
    assert one.run.reason == "1 byte changed that no Triton kernel was seen to store: something else stores too"


def test_a_kernel_that_fails_has_been_watched() -> None:
    """What a kernel did before it raised is kept."""
    (one,) = doubtful()["fails"]
    assert one.result.outcome == "crash"
    (record,) = one.run.records
    assert (record.line, record.side, record.first) == (marked(str(TARGETS), "past"), "after", 0)


def test_a_process_that_ends_early_says_nothing() -> None:
    """Without a file there is no clean run."""
    (one,) = doubtful()["leaves"]
    assert (one.run.state, one.run.reason) == (
        "inconclusive",
        "the case ended before shadow memory could say what it saw",
    )


@pytest.mark.parametrize(("device", "why"), [("cpu", "a line is off"), ("meta", "this case runs on meta")])
def test_no_self_test_no_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: str, why: str) -> None:
    """Where the self-test fails, or there is no interpreter, the case runs unwatched and nothing is vouched for."""
    monkeypatch.setattr(shadowed, "proof", lambda: "a line is off")
    here = scene(SMALL)
    job = Job(0, "store", SMALL, str(tmp_path), 1.0, witness="shadow")
    memory = Memory(here.placement, torch.device(device))
    inputs = case_inputs(here.placement, SMALL, store.CONTRACT)
    with shadowed.shadowed(job, store.store, memory, here.placement, inputs) as watch:
        watch.begin(1)
        watch.end((), ())
    assert (read(tmp_path).state, read(tmp_path).records) == ("inconclusive", ())
    assert read(tmp_path).reason.endswith(why)


@pytest.mark.parametrize("data", [b"", b"\x81", b"\xc1" * 40])
def test_half_a_file_says_nothing(tmp_path: Path, data: bytes) -> None:
    """Nor is there one where the file is broken."""
    (tmp_path / SHADOW).write_bytes(data)
    assert read(tmp_path).state == "inconclusive"
    assert "cannot be read" in read(tmp_path).reason
