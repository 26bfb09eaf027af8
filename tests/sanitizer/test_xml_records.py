"""Records read from XML: every part that is known, every part that is not, and damage that is said."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.sanitizer.text_records import parse_text
from kvcheck.sanitizer.xml_records import DamagedError, parse
from kvcheck.schema import SanitizerAccess

from .outputs import LOAD, record, saved

READ = "Invalid __global__ read of size 2 bytes"
STACK = """<hostStack><saveLocation>kernel launch time</saveLocation><frame><func>main</func><path>/a/run.py</path>
<line>12</line></frame><frame><func>start</func><module>/lib/libc.so</module></frame></hostStack>"""


def test_a_record_in_full() -> None:
    """Kind, words, direction, address, size, kernel, line, block, thread, space, host frames that have a file."""
    (found,) = parse(saved([record(READ, address=0x7F00, block=3, thread=5, more=STACK)]), "memcheck").accesses
    assert found == SanitizerAccess(
        "memcheck", "out-of-bounds", READ, "read", 0x7F00, 2, "store_kernel", LOAD, 58, (3, 0, 0), (5, 0, 0), "global",
        host=("/a/run.py:12 main",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "text", "kind", "access"),
    [
        ("memcheck", "Invalid __global__ write of size 4", "out-of-bounds", "write"),
        ("memcheck", "Invalid __global__ atomic of size 4 bytes", "out-of-bounds", "atomic"),
        ("memcheck", "Invalid __global__ read of size 16 bytes: address is misaligned", "misaligned", "read"),
        ("memcheck", "Leaked 1,024 bytes", "leak", ""), ("memcheck", "Device assert: x &lt; y", "assert", ""),
        ("memcheck", "Program hit error on CUDA API call to cuInit", "api", ""),
        ("initcheck", "Uninitialized __global__ memory read of size 2 bytes", "uninitialised", "read"),
        ("initcheck", "Unused memory in allocation 0x7f00 of size 64", "unused", ""),
        ("initcheck", "words of another version", "uninitialised", ""),
        ("racecheck", "Race reported between Write access and Read access", "race", "write"),
        ("synccheck", "Barrier error detected. Divergent thread(s) in warp", "barrier", "read"),
        ("memcheck", "words of another version", "other", ""),
    ],
)  # fmt: skip
def test_kinds_by_their_words(tool: str, text: str, kind: str, access: str) -> None:
    """The words decide; where they are new, the tool does."""
    (found,) = parse(saved([record(text, direction="")]), tool).accesses
    assert found.kind == kind
    if access:
        assert found.access == access or kind == "barrier"


def test_sizes_and_addresses_of_other_versions() -> None:
    """Thousands separators, another element for the address, a size in the words alone, parts that are missing."""
    other = """<record><what><text>Invalid __global__ read of size 1,024</text><accessAddress>0x10</accessAddress>
    </what><who><threadIdx><x>1,024</x></threadIdx></who></record>"""
    (found,) = parse(saved([other]), "memcheck").accesses
    assert (found.address, found.size, found.thread, found.block) == (16, 1024, (1024, 0, 0), None)
    (bare,) = parse(saved(["<record><kind>Api</kind></record>"]), "memcheck").accesses
    assert (bare.kind, bare.says, bare.address, bare.size, bare.line) == ("api", "Api", None, 0, 0)
    (empty,) = parse(saved(["<record/>"]), "memcheck").accesses
    assert (empty.kind, empty.says) == ("other", "a record without words")


def test_a_copy_that_is_wrong_from_some_byte_on() -> None:
    """Address and size are those of what is wrong: 8 of 24 bytes; the same in text."""
    copied = """<record><what><text>Host API uninitialized memory access</text><accessAddress>4096</accessAddress>
    <accessSize>24</accessSize><errorAddress>4112</errorAddress></what></record>"""
    (found,) = parse(saved([copied]), "initcheck").accesses
    assert (found.kind, found.access, found.address, found.size) == ("uninitialised", "read", 4112, 8)
    text = """========= Host API memory access error at host access to 0x1000 of size 24 bytes
=========     Uninitialized access to 0x1010 on access by cudaMemcpy source
"""
    (same,) = parse_text(text, "initcheck").accesses
    assert (same.kind, same.access, same.address, same.size) == ("uninitialised", "read", 4112, 8)


def test_what_is_not_known_is_kept() -> None:
    """Elements beside the records, and inside them, as they stood, each once."""
    found = parse(saved([record(READ, more="<novel>7</novel>")] * 2 + ["<summary>2</summary>"]), "memcheck")
    assert len(found.accesses) == 2
    assert found.unknown == ("<novel>7</novel>", "<summary>2</summary>")


def test_what_is_nested_too_deeply_is_named() -> None:
    """An unknown part is kept by its name where it cannot be written out."""
    (kept,) = parse(saved(["<novel>" * 5000 + "</novel>" * 5000]), "memcheck").unknown
    assert kept == "<novel>, nested too deeply to be shown"


@pytest.mark.parametrize(
    ("xml", "says"),
    [
        (b"", "empty"), (b" \n", "empty"), (saved([record(READ)])[:-9], "no XML"), (b"========= ERROR", "no XML"),
        (b"<html/>", "expected <ComputeSanitizerOutput>"), (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "entities"),
        (b"\xff\xfe\x00", "no XML"), (b'<?xml version="1.0" encoding="klingon"?><a/>', "no XML"),
    ],
)  # fmt: skip
def test_damage_is_said(xml: bytes, says: str) -> None:
    """Never an empty list of records in place of a file that could not be read."""
    with pytest.raises(DamagedError, match=says):
        parse(xml, "memcheck")


@given(st.data())
def test_damage_is_never_another_exception(data: st.DataObject) -> None:
    """Bytes flipped, cut, doubled or swapped: records, or one line that says why not."""
    whole = saved([record(READ, address=0x7F00, thread=each, more=STACK) for each in range(3)])
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    part = data.draw(st.sampled_from([b"", whole[start:stop] * 2, whole[start:stop][::-1], data.draw(st.binary())]))
    changed = whole[:start] + part + whole[stop:]
    with contextlib.suppress(DamagedError):
        assert isinstance(parse(changed, "memcheck").accesses, tuple)
