"""Damaged outputs of the tool, as whole runs: never clean where there were records, never a traceback."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sanitizer.damage import damaged
from sanitizer.outputs import printed, record, saved
from sanitizer.replay.test_plan import SEED, scene

from kvcheck.run.compute_sanitizer import FOUND, Output
from kvcheck.run.replayed import Played
from kvcheck.run.saw import saw
from kvcheck.schema import SanitizerRun

SCENE = scene(SEED, "exact")
BASES = tuple(0x7F0000000000 + index * (1 << 24) for index in range(len(SCENE.placement.allocations)))
V = SCENE.placement.get("v")
AT = BASES[V.allocation] + V.offset
TEXT = printed(3)
XML = saved(
    record("Invalid __global__ read of size 2 bytes", address=AT + 2304 * token, block=token) for token in (3, 4, 5)
)
QUIET = saved()
UNSTORED = "Uninitialized __global__ memory read of size 2 bytes"
TORCHS = "void at::native::elementwise_kernel(int, float *)"


def told(xml: bytes, text: str, status: int | None, tool: str = "memcheck", *, logged: bool = True) -> SanitizerRun:
    """What comes of an output, where the launch itself came to its end."""
    output = Output(tool, xml, text, status, 0.5, logged)
    played = Played(output, SCENE, BASES, {}, "")
    return saw(played, SanitizerRun(tool, "exact", "replay", "clean"), None)


def test_as_it_was() -> None:
    """Three records, one cause; and none of a run that found nothing."""
    run = told(XML, TEXT, FOUND)
    assert (run.state, run.reason, run.counted, len(run.records)) == ("records", "", 3, 1)
    assert told(QUIET, printed(0), 0).state == "clean"


def test_torchs_own_kernels_are_not_under_test() -> None:
    """What a target has torch do is left out, and said; the rest stays."""
    ours, theirs = (record(UNSTORED, address=AT, kernel=each) for each in ("f", TORCHS))
    run = told(saved([theirs, ours, theirs]), printed(3), FOUND, "initcheck")
    assert (run.state, [each.kernel for each in run.records]) == ("records", ["f"])
    assert (run.left_out, run.counted) == ((f"2 records of {TORCHS}",), 3)


def test_a_run_with_nothing_else_is_not_clean() -> None:
    """What torch has copied counts as stored, and so hides what the kernel under test reads."""
    run = told(saved([record(UNSTORED, address=AT, kernel=TORCHS)]), printed(1, "error"), FOUND, "initcheck")
    assert (run.state, run.records, run.left_out) == ("inconclusive", (), (f"1 record of {TORCHS}",))
    assert run.reason.startswith(f"all that it has are 1 record of {TORCHS}: torch's own")


def test_a_kernels_namespace_is_in_the_log_alone() -> None:
    """As the tool has it: the saved record's kernel could be anybody's, the printed one's is torch's."""
    xml = saved([record(UNSTORED, address=AT, kernel="elementwise_kernel")])
    printed_record = f"""========= {UNSTORED}
=========     at {TORCHS}+0xe0 in /kernels/store.py:58
=========     by thread (0,0,0) in block (0,0,0)
=========     Address {AT:#x}
"""
    text = printed_record + printed(1, "error")
    assert told(xml, text, FOUND, "initcheck").left_out == (f"1 record of {TORCHS}",)
    other = text.replace("thread (0", "thread (1")  # of another access: then nothing is known of the kernel
    assert [each.kernel for each in told(xml, other, FOUND, "initcheck").records] == ["elementwise_kernel"]


def test_torch_past_the_end_is_the_targets_fault() -> None:
    """It goes where the target has it go."""
    run = told(saved([record("Invalid __global__ read of size 2 bytes", address=AT, kernel=TORCHS)]), printed(1), FOUND)
    assert (run.state, [each.kernel for each in run.records], run.left_out) == ("records", [TORCHS], ())


def test_what_is_not_known_is_not_clean() -> None:
    """Beside no record it may be what a new version calls one; beside records it is kept, and the records stand."""
    run = told(saved(["<novel>7</novel>"]), printed(0), 0)
    assert (run.state, run.unknown) == ("inconclusive", ("<novel>7</novel>",))
    assert run.reason == "the saved records hold what kvcheck does not know: <novel>7</novel>"
    run = told(saved([record(UNSTORED, address=AT), "<novel>7</novel>"]), printed(1), FOUND, "initcheck")
    assert (run.state, run.reason, run.unknown) == ("records", "", ("<novel>7</novel>",))


@settings(max_examples=800, deadline=None)
@given(damaged(XML), st.sampled_from((0, 1, FOUND, None)))
def test_damaged_records_are_never_clean(xml: bytes, status: int | None) -> None:
    """The summary still counts three."""
    assert told(xml, TEXT, status).state != "clean"


@settings(max_examples=800, deadline=None)
@given(damaged(TEXT.encode()), st.sampled_from((0, 1, FOUND, None)))
def test_a_damaged_summary_is_never_clean(text: bytes, status: int | None) -> None:
    """The records still say three."""
    assert told(XML, text.decode(errors="replace"), status).state == "records"


@settings(max_examples=800, deadline=None)
@given(damaged(XML), damaged(TEXT.encode()))
def test_damage_to_both_is_never_clean(xml: bytes, text: bytes) -> None:
    """The exit status still says that something was found."""
    assert told(xml, text.decode(errors="replace"), FOUND).state != "clean"


@pytest.mark.parametrize("address", [1 << 63, (1 << 64) - 1, 0])
def test_addresses_that_are_none(address: int) -> None:
    """Kept as the tool has them."""
    run = told(saved([record("Invalid __global__ read of size 2 bytes", address=address)]), printed(1), FOUND)
    assert [each.tensor for each in run.records] == [""]
