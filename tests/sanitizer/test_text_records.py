"""Records read from what the tool prints: of this version, of older ones, and of damage."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.sanitizer.text_records import parse_text
from kvcheck.schema import SanitizerAccess

PAST = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at past(const int *, int *, int)+0x90 in /a/k.cu:10
=========     by thread (2,0,0) in block (1,0,0)
=========     Access to 0x7f2d5be00100 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2d5be00000 of size 256 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main in /a/k.cu:80 [0x1234] in k
=========
========= ERROR SUMMARY: 1 error
"""
OLD = """========= Invalid __global__ write of size 1,024
=========     at 0x60 in /a/demo.cu:6:unaligned_kernel(void)
=========     by thread (1,023,0,0) in block (0,0,0)
=========     Address 0x400100001 is misaligned
"""


def test_a_record_in_full() -> None:
    """All that the text has."""
    (found,) = parse_text(PAST, "memcheck").accesses
    assert found == SanitizerAccess(
        "memcheck", "out-of-bounds", "Invalid __global__ read of size 4 bytes", "read", 0x7F2D5BE00100, 4,
        "past(const int *, int *, int)", "/a/k.cu", 10, (1, 0, 0), (2, 0, 0), "global", host=("/a/k.cu:80 main",),
    )  # fmt: skip


def test_a_record_of_an_older_version() -> None:
    """The line before the kernel, the address otherwise, no word after a size with a separator."""
    (found,) = parse_text(OLD, "memcheck").accesses
    assert (found.kernel, found.file, found.line) == ("unaligned_kernel(void)", "/a/demo.cu", 6)
    assert (found.size, found.address, found.thread) == (1024, 0x400100001, (1023, 0, 0))


def test_what_is_not_known_is_kept() -> None:
    """Lines at the margin that are no record, each once; nothing of what the program prints."""
    text = "========= Internal Sanitizer Error\n" * 2 + "Invalid __global__ read of size 4\n=========\n"
    assert parse_text(text, "memcheck") == ((), ("Internal Sanitizer Error",))
    assert parse_text("", "memcheck") == ((), ())


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_damage_is_never_an_exception(data: st.DataObject) -> None:
    """Cut anywhere, with anything in between."""
    whole = PAST + OLD
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    changed = whole[:start] + data.draw(st.text()) + whole[stop:]
    assert isinstance(parse_text(changed, "memcheck").accesses, tuple)
