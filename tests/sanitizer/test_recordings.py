"""The tool's own outputs, read: what stands in them, and the same from XML as from text."""

from __future__ import annotations

import re

import pytest

from kvcheck.sanitizer.text_records import parse_text
from kvcheck.sanitizer.xml_records import parse
from kvcheck.schema import SanitizerAccess

from .recordings import DATA, recorded

RUNS = recorded()
SOURCE = (DATA / "k.cu").read_text(encoding="utf-8").splitlines()

#: How many records a run has, of which kinds, and what the line that they name is of in the source.
FOUND: dict[str, tuple[int, set[str], str]] = {
    "initcheck-half-initialised": (2, {"uninitialised"}, "void copy("),
    "initcheck-host-uninitialised": (1, {"uninitialised"}, ""),
    "initcheck-known-uninitialised": (1, {"uninitialised"}, ""),
    "initcheck-uninitialised": (8, {"uninitialised"}, "void copy("),
    "memcheck-api": (1, {"api"}, ""),
    "memcheck-api-device": (1, {"api"}, ""),
    "memcheck-assert": (2, {"assert"}, ""),
    "memcheck-atomic-past": (2, {"out-of-bounds"}, "void atomic_past("),
    "memcheck-backtrace": (2, {"out-of-bounds"}, "int deep("),
    "memcheck-bad-launch": (1, {"api"}, ""),
    "memcheck-calls": (2, {"out-of-bounds"}, "int deep("),
    "memcheck-freed": (2, {"out-of-bounds"}, "void copy("),
    "memcheck-freed-async": (2, {"out-of-bounds"}, "void copy("),
    "memcheck-heap": (1, {"out-of-bounds"}, "void heap("),
    "memcheck-host-past": (1, {"api"}, ""),
    "memcheck-known-out-of-bounds": (1, {"out-of-bounds"}, ""),
    "memcheck-leak": (2, {"leak"}, ""),
    "memcheck-leak-and-past": (6, {"out-of-bounds", "leak"}, "void past("),
    "memcheck-limit2": (2, {"out-of-bounds"}, "void past("),
    "memcheck-misaligned": (2, {"misaligned"}, "void misaligned("),
    "memcheck-null": (1, {"out-of-bounds"}, "void past("),
    "memcheck-past": (4, {"out-of-bounds"}, "void past("),
    "memcheck-shared-past": (32, {"out-of-bounds"}, "void shared_past("),
    "memcheck-templated": (2, {"out-of-bounds"}, "void templated("),
    "memcheck-torchs": (2, {"out-of-bounds"}, "void elementwise_kernel("),
    "memcheck-trap": (2, {"other"}, "void traps("),
    "memcheck-write-past": (2, {"out-of-bounds"}, "void write_past("),
    "racecheck-limit1": (1, {"race"}, "void race("),
    "racecheck-race": (1, {"race"}, "void race("),
    "racecheck-race-write": (1, {"race"}, "void race_write("),
    "synccheck-divergent-block": (8, {"barrier"}, "void divergent_block("),
    "synccheck-wrong-mask": (4, {"barrier"}, "void wrong_mask("),
}


def saved(name: str) -> tuple[SanitizerAccess, ...]:
    """The saved records of a run, in which nothing is unknown."""
    run = RUNS[name]
    assert run.xml is not None
    found = parse(run.xml, run.tool)
    assert found.unknown == ()
    return found.accesses


@pytest.mark.parametrize("name", FOUND)
def test_what_stands_in_the_saved_records(name: str) -> None:
    """How many, of what, at which line of the source."""
    count, kinds, line = FOUND[name]
    found = saved(name)
    assert (len(found), {each.kind for each in found}) == (count, kinds)
    places = {(each.file, each.line) for each in found if each.kind != "leak"}
    if line:
        ((file, number),) = places
        assert file == "/k/k.cu"
        assert line in SOURCE[number - 1]
    else:
        assert places <= {("", 0)}


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if run.xml is not None])
def test_text_says_the_same(name: str) -> None:
    """All but the words: what is saved and what is printed are of the same accesses, in one order."""
    run = RUNS[name]
    printed, found = parse_text(run.text, run.tool).accesses, saved(name)
    assert [facts(each) for each in printed] == [facts(each) for each in found]


def facts(one: SanitizerAccess) -> tuple[object, ...]:
    """What a record says, with the kernel's plain name."""
    plain = re.sub(r"^void |<.*|\(.*", "", one.kernel).rpartition("::")[2]
    where = (one.address, one.size, one.space, plain, one.file, one.line, one.block, one.thread)
    return (one.kind, one.access, one.count, *where)


def test_words_of_a_race() -> None:
    """Both sides, with their lines; how often."""
    (one,) = saved("racecheck-race")
    assert one.says == "Race condition: write at /k/k.cu:15, read at /k/k.cu:15"
    assert (one.access, one.kernel, one.count) == ("write", "race", 256)
    (one,) = saved("racecheck-limit1")
    assert (one.says, one.address, one.space) == ("Potential RAW hazard detected", 0x47C, "shared")
    assert (one.access, one.thread, one.block) == ("write", (31, 0, 0), (0, 0, 0))


def test_words_of_a_barrier_and_of_a_trap() -> None:
    """The barrier's own reason; what an exception is of."""
    assert saved("synccheck-wrong-mask")[0].says == "Barrier error: Invalid arguments"
    assert [each.says for each in saved("memcheck-trap")] == ["Trace/breakpoint trap"] * 2
    assert [each.says for each in saved("memcheck-assert")] == ["Warp assert"] * 2


def test_a_copy_of_the_hosts() -> None:
    """Address and size, in decimal; what nobody stored was read."""
    (one,) = saved("initcheck-host-uninitialised")
    assert (one.says, one.access, one.size) == ("Host API uninitialized memory access", "read", 16)
    assert one.address == 0x7F1E56800000


def test_the_kernel_is_the_outermost_frame() -> None:
    """Of a function that a kernel calls, and of an atomic in a header, which no user has written."""
    assert {each.kernel for each in saved("memcheck-calls")} == {"calls"}
    assert {(each.kernel, each.access) for each in saved("memcheck-atomic-past")} == {("atomic_past", "atomic")}


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if not run.logged])
def test_what_is_printed_by_default(name: str) -> None:
    """Paths are names, host frames stand below: as many records as the summary counts."""
    run = RUNS[name]
    found = parse_text(run.text, run.tool).accesses
    counts = [int(each) for each in re.findall(r"SUMMARY: (\d+)", run.text)]
    assert [len(found)] == (counts or [0])
    assert {each.file for each in found} <= {"k.cu", ""}
