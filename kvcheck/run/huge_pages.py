"""Large pages for what a nursery has loaded: a fork copies a table of pages, and its end takes one down.

What torch and Triton allocate while they are imported is some 40 000 small pages, each of which every fork lists and
every end of one forgets: a third of what the smallest case takes without a GPU. In pages of 2 MiB they are a few dozen.
That is no more than speed: where the system has none, or `MADV_COLLAPSE` (Linux 6.1) is unknown, nothing happens.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Asks glibc for large pages from the first allocation on: cheaper than to join small ones later.
_TUNABLES, _ASKED = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"

_COLLAPSE = 25
#: Of the small pages that a large one takes the place of, the part that must be in use: the others cost memory.
_IN_USE = 0.5
#: In `pagemap`, the bit of a page that is in memory.
_PRESENT = 1 << 63

_SELF = Path("/proc/self")
_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")


def asking_for_large_pages(tunables: str | None) -> dict[str, str]:
    """The variable that makes a process take large pages, beside the `tunables` it has; what the user says stands."""
    said = [each for each in (tunables or "").split(":") if each]
    if not any(each.partition("=")[0] == _ASKED for each in said):
        said.append(f"{_ASKED}=1")
    return {_TUNABLES: ":".join(said)}


def join_pages() -> int:
    """Join this process's private memory into large pages where most of one is in use. Returns how many were joined."""
    try:
        large, small = int(_SIZE.read_text(encoding="ascii")), os.sysconf("SC_PAGE_SIZE")
        maps = (_SELF / "maps").read_text(encoding="utf-8", errors="replace").splitlines()
        madvise = ctypes.CDLL(None).madvise
        with (_SELF / "pagemap").open("rb", buffering=0) as pagemap:

            def words(begin: int) -> bytes:
                pagemap.seek(begin // small * 8)
                return pagemap.read(large // small * 8)

            worth = [begin for begin in aligned(maps, large) if in_use(words(begin)) >= _IN_USE]
    except (OSError, ValueError, AttributeError):
        return 0
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return sum(madvise(begin, large, _COLLAPSE) == 0 for begin in worth)


def aligned(maps: Iterable[str], large: int) -> Iterator[int]:
    """Addresses at which a large page, in bytes, fits into private writable memory that is no file's.

    `maps` are the lines of `/proc/self/maps`.
    """
    for line in maps:
        span, mode, _, _, inode, *name = line.split(maxsplit=5)
        if mode != "rw-p" or inode != "0" or (name and not name[0].startswith(("[heap]", "[anon"))):
            continue
        begin, end = (int(each, 16) for each in span.split("-"))
        yield from range(-(-begin // large) * large, end - large + 1, large)


def in_use(words: bytes) -> float:
    """The part of some pages that is in memory, by their entries in `pagemap`: 64 bits each."""
    entries = array("Q", words)
    return sum(entry >= _PRESENT for entry in entries) / max(1, len(entries))
