"""From accesses as a tool saw them to causes: whose memory, which side, how far, which row it would be.

The sentences are those of shadow memory, so that a finding on a GPU and one in the interpreter read alike. What a tool
cannot tell is which argument a pointer came from. It is taken for the one tensor at which another pitch makes, of each
program's addresses, the row that the program is to handle; without such a one, for the nearest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kvcheck.sanitizer.fold import indices
from kvcheck.sanitizer.shadow.describe import Describer
from kvcheck.sanitizer.shadow.elements import guess
from kvcheck.sanitizer.shadow.findings import Access, Finding, Grid, Key, Kind
from kvcheck.sanitizer.shadow.pointers import Argument
from kvcheck.sanitizer.shadow.segments import NOBODY, Addresses, Rows, extents, segments
from kvcheck.sanitizer.shadow.where import Site
from kvcheck.schema import Placement, SanitizerAccess, SanitizerKind, SanitizerRecord

#: Further than this from every tensor, in bytes, an address is nobody's.
FAR = 1 << 28

#: No address, and no access, is as large: numbers that are come of damaged records.
_ADDRESSES, _SIZES = 1 << 62, 1 << 20

#: What a tool adds to where an access lies.
_MEANS: dict[SanitizerKind, str] = {
    "uninitialised": "nothing has stored there", "out-of-bounds": "no memory is allocated there",
    "misaligned": "at no multiple of its size",
}  # fmt: skip


class Cause(NamedTuple):
    """What accesses have in common that are of one cause."""

    tool: str
    kind: SanitizerKind
    access: str
    size: int
    kernel: str
    file: str
    line: int


def attribute(
    accesses: Iterable[SanitizerAccess],
    placement: Placement,
    bases: tuple[int, ...],
    rows: Rows,
    others: Sequence[tuple[int, int]] = (),
) -> tuple[SanitizerRecord, ...]:
    """One record a cause, by line. `bases` are the allocations' addresses, `rows` the rows addressed, by tensor.

    `others` are spans of memory that is not the placement's. Without `bases` nothing is said of whose memory it is.
    """
    groups: dict[Cause, list[SanitizerAccess]] = defaultdict(list)
    for one in accesses:
        groups[Cause(one.tool, one.kind, one.access, one.size, one.kernel, one.file, one.line)].append(one)
    found: list[SanitizerRecord] = []
    owners = _Owners(placement, bases, rows, others) if len(bases) == len(placement.allocations) else None
    for cause, some in groups.items():
        located = [one for one in some if _located(one)] if owners is not None else []
        parts = owners.by_owner(located) if owners is not None else {}
        for owner, hit in sorted(parts):
            if owners is not None and owner != NOBODY:
                found.append(owners.record(cause, owner, hit, parts[owner, hit]))
        rest = [one for one in some if one not in located] + [
            one for (owner, _), members in parts.items() if owner == NOBODY for one in members
        ]
        if rest:
            found.append(plain(cause, rest))
    return tuple(sorted(found, key=lambda each: (each.file, each.line, each.kind, each.tensor, each.memory)))


def _located(one: SanitizerAccess) -> bool:
    if one.address is None or one.space not in ("", "global"):  # of a block's shared memory, addresses begin at 0
        return False
    return one.address < _ADDRESSES and one.size < _SIZES and one.access != ""


def plain(cause: Cause, some: Sequence[SanitizerAccess]) -> SanitizerRecord:
    """A record in the tool's own words, of nobody's memory."""
    return SanitizerRecord(
        tool=cause.tool, kind=cause.kind, says=some[0].says, access=some[0].access, size=cause.size,
        kernel=cause.kernel, file=cause.file, line=cause.line, source=Site(cause.file, cause.line, ()).source(),
        threads=indices(one.thread for one in some if one.thread is not None),
        blocks=indices(one.block for one in some if one.block is not None),
        count=sum(one.count for one in some), host=some[0].host,
    )  # fmt: skip


class _Owners:
    """Whose memory addresses are."""

    def __init__(
        self, placement: Placement, bases: tuple[int, ...], rows: Rows, others: Sequence[tuple[int, int]]
    ) -> None:
        self._placement, self._bases, self._rows, self._others = placement, bases, rows, others
        self._map = segments(placement, bases, rows)
        self._extents = extents(placement, bases)
        self._describer = Describer(placement, bases, rows)

    def by_owner(self, some: Sequence[SanitizerAccess]) -> dict[tuple[int, int], list[SanitizerAccess]]:
        """Accesses by the tensor that they are taken to be of, and by the one whose element they hit."""
        if not some:
            return {}
        addresses = np.array([one.address for one in some], np.int64)
        found = self._map.at(addresses)
        holds = self._map.hold(found, addresses, 1)
        hits = np.where(holds, self._map.owners[found], NOBODY)
        # What begins in a tensor's last element and ends behind it has left the tensor.
        ends = np.array([self._extents[hit][1] if hit != NOBODY else 0 for hit in hits.tolist()], np.int64)
        hits = np.where(addresses + np.array([one.size for one in some], np.int64) > ends, NOBODY, hits)
        believed = self._believed(some, addresses)
        owners = [believed] * len(some) if believed is not None else [self._nearest(int(each)) for each in addresses]
        parts: dict[tuple[int, int], list[SanitizerAccess]] = defaultdict(list)
        for one, owner, hit in zip(some, owners, hits.tolist(), strict=True):
            parts[hit if believed is None and hit != NOBODY else owner, hit].append(one)
        return parts

    def record(self, cause: Cause, owner: int, hit: int, some: Sequence[SanitizerAccess]) -> SanitizerRecord:
        """Accesses of one cause, taken to be of one tensor."""
        finding = Finding(1)
        for block, addresses in _lanes(some):
            finding.add(addresses, block)
        at = finding.where()
        start, stop = self._extents[owner]
        inside = bool(((at >= start) & (at + cause.size <= stop)).all())
        kind: Kind = "gap" if inside and hit == NOBODY else "out-of-bounds"
        if hit == owner:
            kind = "misaligned" if cause.kind == "misaligned" else "uninitialised"
        access: Access = cause.access  # type: ignore[assignment]
        site = Site(cause.file, cause.line, ()) if cause.file else None
        key = Key(
            kind, access, cause.kernel, site, None, Argument("", owner, frozenset({owner}), None), hit, cause.size
        )
        made = self._describer.record(key, finding)
        means = "" if hit == owner else f"; {_MEANS[cause.kind]}" if cause.kind in _MEANS else f"; {some[0].says}"
        # Rows that are due are read back: where no kernel has stored one, it is this that the tool sees.
        who = "" if cause.kernel else "a copy by the host "
        return msgspec.structs.replace(
            made, tool=cause.tool, kind=cause.kind, says=who + made.says + means, count=sum(one.count for one in some),
            threads=indices(one.thread for one in some if one.thread is not None),
            blocks=indices(one.block for one in some if one.block is not None), host=some[0].host,
        )  # fmt: skip

    def _believed(self, some: Sequence[SanitizerAccess], addresses: Addresses) -> int | None:
        """The one tensor of which another pitch makes each program's addresses its own row; None without one."""
        lanes = _lanes(some)
        fits = []
        for index, tensor in enumerate(self._placement.tensors):
            start, stop = self._extents[index]
            if start == stop or ((addresses >= start) & (addresses < stop)).any():
                continue
            if guess(self._placement, tensor, self._bases[tensor.allocation], lanes, self._rows.get(tensor.name)):
                fits.append(index)
        return fits[0] if len(fits) == 1 else None

    def _nearest(self, address: int) -> int:
        """The tensor that an address lies in or next to; NOBODY where other memory is nearer, or nothing is near."""
        far = [_away(address, span) for span in self._extents]
        least = min(far, default=FAR)
        if least >= FAR or any(_away(address, span) < least for span in self._others):
            return NOBODY
        return far.index(least)


def _away(address: int, span: tuple[int, int]) -> int:
    """Bytes from an address to a span, 0 within; empty spans are far from everything."""
    start, stop = span
    if start == stop:
        return FAR
    return max(start - address, address - stop + 1, 0)


def _lanes(some: Sequence[SanitizerAccess]) -> list[tuple[Grid, Addresses]]:
    """Addresses by program."""
    by_block: dict[Grid, list[int]] = defaultdict(list)
    for one in some:
        assert one.address is not None
        by_block[one.block or (0, 0, 0)].append(one.address)
    return [(block, np.array(each, np.int64)) for block, each in by_block.items()]
