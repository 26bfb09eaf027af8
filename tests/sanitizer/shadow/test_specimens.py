"""Every specimen that touches memory it must not is caught at the line that does it; those that only round are not.

Lines are found by what stands in them. Where a specimen's wrong part computes an address, the line is that of the load
or store which the specimens share.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import kvcheck.kernels.specimens
from kvcheck.schema import Case
from sanitizer.shadow.running import Shadowed, shadow

HERE = Path(kvcheck.kernels.specimens.__file__).parent
LOAD, KEEP, KEEP_SCALE = (
    ("specimens/_base.py", text)
    for text in (
        "return tl.load(place, mask=mask, other=0.0).to(tl.float32)",
        "tl.store(place, code.to(tl.uint8), mask=(head < HEADS) & (dim < DIM))",
        "tl.store(place, scale, mask=mask)",
    )
)
STORE_LOAD = ("store.py", "value = tl.load(row + heads * source_head + dims * source_inner, mask=mask, other=0.0)")

QKV = Case(tokens=8, k_view="qkv")
PADDED = Case(tokens=3, head_dim=80, k_view="inner2", v_view="head_padded", k_cache="padded", v_cache="head_padded")
OFFSET = Case(tokens=5, head_dim=20, k_view="offset17", v_view="offset8", layout="exact")
LARGE = Case(tokens=5, heads=8, head_dim=576, k_view="qkv", v_view="qkv", slots="last")


@dataclass(frozen=True)
class Row:
    """A specimen, a case that shows it, the line, and what is done there to which tensors."""

    name: str
    case: Case
    line: tuple[str, str]
    kinds: frozenset[tuple[str, str]]


def own(name: str, text: str) -> tuple[str, str]:
    """A line of the specimen's own file."""
    return f"specimens/{name}.py", text


BOTH_CODES = frozenset({("stray", "k_codes"), ("stray", "v_codes")})
BOTH_SCALES = frozenset({("stray", "k_scales"), ("stray", "v_scales")})

ROWS = (
    Row("shared-pitch", QKV, STORE_LOAD, frozenset({("out-of-bounds", "v")})),
    Row("shared-pitch-of-v", QKV, STORE_LOAD, frozenset({("gap", "k")})),
    Row("dense-heads", PADDED, LOAD, frozenset({("gap", "v")})),
    Row("unit-inner-stride", PADDED, LOAD, frozenset({("gap", "k")})),
    Row("storage-begin", OFFSET, LOAD, frozenset({("out-of-bounds", "k"), ("out-of-bounds", "v")})),
    Row("sibling-cache-stride", PADDED, KEEP, frozenset({("gap", "v_codes"), ("stray", "v_codes")})),
    Row("first-layer", Case(tokens=3, layers=2), KEEP, frozenset({("out-of-bounds", "")})),
    Row("first-layer", Case(tokens=3, layers=2), KEEP_SCALE, frozenset({("out-of-bounds", "")})),
    Row("row-major-pages", QKV, KEEP, BOTH_CODES),
    Row("page-stride-from-shape", PADDED, KEEP, frozenset({("gap", "k_codes")})),
    Row("page-boundary", Case(tokens=3, slots="page_edges"), KEEP, BOTH_CODES),
    Row("wrapped-slot-offset", LARGE, KEEP, BOTH_CODES),
    Row("wrapped-source", LARGE, LOAD, frozenset({("out-of-bounds", "k"), ("out-of-bounds", "v")})),
    Row("dense-scales", PADDED, KEEP_SCALE, frozenset({("gap", "k_scales"), ("gap", "v_scales")})),
    Row("head-major-scales", QKV, KEEP_SCALE, BOTH_SCALES),
    Row("negative-slot", Case(tokens=3, slots="negative_mixed"), KEEP, BOTH_CODES),
    Row("negative-slot", Case(tokens=3, slots="negative_mixed"), KEEP_SCALE, BOTH_SCALES),
    Row("amax-behind-row", QKV, own("amax_behind_row", "return largest(tl.load(place"),
        frozenset({("gap", "k"), ("out-of-bounds", "k"), ("out-of-bounds", "v")})),
    Row("cleared-gap", PADDED, own("cleared_gap", "tl.store(place"), frozenset({("gap", "v_codes")})),
    Row("clamped-in-place", QKV, own("clamped_in_place", "tl.store(place"),
        frozenset({("stray", "k"), ("stray", "v")})),
    Row("running-scale", QKV, own("running_scale", "before = tl.load(place"),
        frozenset({("uninitialised", "k_scales"), ("uninitialised", "v_scales")})),
)  # fmt: skip

#: Their addresses are right, or within what they may read and must store: what is wrong is what is stored, or lost.
QUIET = ("toward-zero", "maximum-240", "half-row-amax", "token-amax", "last-lane", "grouped-heads")


@cache
def seen() -> dict[str, list[Shadowed]]:
    """Every specimen over the cases that the table has for it, in one nursery."""
    cases: dict[str, list[Case]] = {}
    for row in ROWS:
        cases.setdefault(f"specimen:{row.name}", []).append(row.case)
    for name in QUIET:
        cases[f"specimen:{name}"] = [QKV, PADDED]
    return shadow("specimen:*", cases)


def line_of(file: str, text: str) -> int:
    """The one line of a kernel's file that begins so."""
    path = HERE.parent / file
    (line,) = (n for n, each in enumerate(linecache.getlines(str(path)), 1) if each.strip().startswith(text))
    return line


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-{row.line[1][:16]}")
def test_caught_at_its_line(row: Row) -> None:
    """At least what the table says, on that line; and the report's verdict is never clean."""
    (one, *_) = [each for each in seen()[f"specimen:{row.name}"] if each.case == row.case]
    assert one.run.state == "records"
    file, line = str(HERE.parent / row.line[0]), line_of(*row.line)
    found = {(record.kind, record.tensor) for record in one.run.records if (record.file, record.line) == (file, line)}
    assert row.kinds <= found
    for record in one.run.records:
        assert record.source == linecache.getline(record.file, record.line).strip()
        assert record.count > 0
        assert record.blocks


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("dense-heads", "at_dense_heads"), ("wrapped-source", "at_short_offset"), ("page-boundary", "to_page_before"),
        ("dense-scales", "to_dense_scales"),
    ],
)  # fmt: skip
def test_part_that_made_the_address(name: str, function: str) -> None:
    """Where the line is one that the specimens share, the wrong part is named beside it."""
    file = HERE / f"{name.replace('-', '_')}.py"
    for one in seen()[f"specimen:{name}"]:
        assert one.run.records
        for record in one.run.records:
            made, _, called = record.made.partition(" ")
            assert (made.rpartition(":")[0], called) == (str(file), function)


@pytest.mark.parametrize("name", QUIET)
def test_quiet_where_memory_is_right(name: str) -> None:
    """A kernel whose bytes are wrong, but not where it reads and writes, has no record; the codes tell."""
    for one in seen()[f"specimen:{name}"]:
        assert (one.run.state, one.run.records, one.result.outcome) == ("clean", (), "mismatch")
