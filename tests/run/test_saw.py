"""Damaged outputs of the tool, as whole runs: never clean where there were records, never a traceback."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
EDGES = re.compile(rb"<record>|</ComputeSanitizerOutput>|^=", re.MULTILINE)


def told(xml: bytes, text: str, status: int | None) -> SanitizerRun:
    """What comes of an output, where the launch itself came to its end."""
    output = Output("memcheck", xml, text, status, 0.5)
    played = Played(output, SCENE, BASES, {}, "")
    return saw(played, SanitizerRun("memcheck", "exact", "replay", "clean"), None)


def test_as_it_was() -> None:
    """Three records, one cause; and none of a run that found nothing."""
    run = told(XML, TEXT, FOUND)
    assert (run.state, run.reason, run.counted, len(run.records)) == ("records", "", 3, 1)
    assert told(QUIET, printed(0), 0).state == "clean"


def test_torchs_own_kernels_are_not_under_test() -> None:
    """What a target has torch do is left out, and the rest stays."""
    name = "void at::native::vectorized_elementwise_kernel".replace("<", "")
    ours, theirs = (record("Invalid __global__ read of size 2 bytes", address=AT, kernel=each) for each in ("f", name))
    assert [each.kernel for each in told(saved([ours, theirs]), printed(2), FOUND).records] == ["f"]
    assert told(saved([theirs]), printed(1, "error"), FOUND).state == "clean"


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes flipped, parts cut, doubled, turned round or put elsewhere."""
    found = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        start, stop = sorted((draw(st.integers(0, len(found))), draw(st.integers(0, len(found)))))
        part = bytes(found[start:stop])
        if draw(st.booleans()):  # whole elements and lines, which leave what is well-formed
            edges = [
                match.start() for match in re.finditer(rb"<record>|</ComputeSanitizerOutput>|^=", found, re.MULTILINE)
            ]
            start, stop = sorted(draw(st.tuples(*[st.sampled_from(edges or [0])] * 2)))
            part = bytes(found[start:stop])
        kind = draw(st.sampled_from(("cut", "flip", "double", "turn", "move", "write")))
        if kind == "cut":
            del found[start:stop]
        elif kind == "flip" and start < len(found):
            found[start] ^= 1 << draw(st.integers(0, 7))
        elif kind == "double":
            found[start:start] = part
        elif kind == "turn":
            found[start:stop] = part[::-1]
        elif kind == "move":
            del found[start:stop]
            at = draw(st.integers(0, len(found)))
            found[at:at] = part
        else:
            found[start:start] = draw(
                st.sampled_from((b"0", b"<record/>", b"ERROR SUMMARY: 0 errors\n", b"\xff", b"9" * 30))
            )
    return bytes(found)


@settings(max_examples=2500, deadline=None)
@given(damaged(XML), st.sampled_from((0, 1, FOUND, None)))
def test_damaged_records_are_never_clean(xml: bytes, status: int | None) -> None:
    """The summary still counts three."""
    assert told(xml, TEXT, status).state != "clean"


@settings(max_examples=2500, deadline=None)
@given(damaged(TEXT.encode()), st.sampled_from((0, 1, FOUND, None)))
def test_a_damaged_summary_is_never_clean(text: bytes, status: int | None) -> None:
    """The records still say three."""
    assert told(XML, text.decode(errors="replace"), status).state == "records"


@settings(max_examples=2500, deadline=None)
@given(damaged(XML), damaged(TEXT.encode()))
def test_damage_to_both_is_never_clean(xml: bytes, text: bytes) -> None:
    """The exit status still says that something was found."""
    assert told(xml, text.decode(errors="replace"), FOUND).state != "clean"


@pytest.mark.parametrize("address", [1 << 63, (1 << 64) - 1, 0])
def test_addresses_that_are_none(address: int) -> None:
    """Kept as the tool has them."""
    run = told(saved([record("Invalid __global__ read of size 2 bytes", address=address)]), printed(1), FOUND)
    assert [each.tensor for each in run.records] == [""]
