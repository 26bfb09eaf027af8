"""Large pages: which addresses are worth one, what the environment asks for, and that the system gives them."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.run import huge_pages
from kvcheck.run.huge_pages import aligned, asking_for_large_pages, in_use, join_pages

LARGE = 0x200000
SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")

MAPS = """\
00200000-00700000 rw-p 00000000 00:00 0                                  [heap]
7f0000100000-7f00005fffff rw-p 00000000 00:00 0
7f0001000000-7f0001200000 rw-p 00000000 00:00 0                          [anon:arena]
7f0002000000-7f0002800000 r--p 00000000 00:00 0
7f0003000000-7f0003800000 rw-s 00000000 00:01 0                          /dev/zero (deleted)
7f0004000000-7f0004800000 rw-p 00100000 fe:00 4711                       /usr/lib/libtorch_cpu.so
7f0005000000-7f0005800000 rw-p 00000000 00:00 0                          [stack]
"""


def test_private_memory_of_no_file_is_taken_in_whole_large_pages() -> None:
    """Of what is mapped: no file, no shared memory, nothing read-only, no stack, no part of a large page."""
    found = list(aligned(MAPS.splitlines(), LARGE))
    assert found == [0x200000, 0x400000, 0x7F0000200000, 0x7F0001000000]


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 25))
def test_no_large_page_leaves_its_mapping(begin: int, size: int) -> None:
    """Wherever a mapping begins and ends."""
    pages = list(aligned([f"{begin:x}-{begin + size:x} rw-p 00000000 00:00 0"], LARGE))
    assert all(page % LARGE == 0 and begin <= page and page + LARGE <= begin + size for page in pages)
    assert len(pages) >= size // LARGE - 1


def test_a_page_is_in_use_where_its_entry_says_present() -> None:
    """A page that is swapped out is not."""
    assert in_use(struct.pack("4Q", 1 << 63, 0, 1 << 62, (1 << 63) | 5)) == 0.5
    assert in_use(b"") == 0.0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "glibc.malloc.hugetlb=1"),
        ("", "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.arena_max=1", "glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
    ],
)
def test_what_the_user_asks_of_the_c_library_stands(before: str | None, after: str) -> None:
    """What is asked is added to it."""
    assert asking_for_large_pages(before) == {"GLIBC_TUNABLES": after}


@pytest.mark.skipif(not SIZE.exists(), reason="this system has no large pages")
def test_memory_in_use_is_joined_and_keeps_its_bytes() -> None:
    """In a process of its own: of this one's memory nobody knows who else counts its pages."""
    code = (
        "import mmap; from kvcheck.run.huge_pages import join_pages\n"
        "memory = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "for page in range(0, 12 << 20, 4096): memory[page] = page >> 12 & 255\n"
        "for page in range(16 << 20, 64 << 20, 1 << 20): memory[page] = 1\n"
        "joined = join_pages()\n"
        "rollup = open('/proc/self/smaps_rollup').read()\n"
        "huge = int(rollup.split('AnonHugePages:')[1].split()[0])\n"
        "assert all(memory[page] == page >> 12 & 255 for page in range(0, 12 << 20, 4096))\n"
        "print(joined, huge)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    joined, huge = map(int, done.stdout.split())
    if not joined:
        pytest.skip("this system joins no pages: Linux 6.1 does")
    assert joined >= 5
    assert huge >= 5 * 2048
    assert huge <= 32 * 1024, "memory that nobody uses was joined"


def test_without_a_system_that_tells_nothing_is_joined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And nothing is raised."""
    monkeypatch.setattr(huge_pages, "_SIZE", tmp_path / "absent")
    assert join_pages() == 0
