"""The judge of single accesses: each lane's address, what it does, and which argument its pointer came from."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from kvcheck.sanitizer.shadow.findings import Access, Asked, Finding, Key, Kind
from kvcheck.sanitizer.shadow.pointers import CANONICAL, Argument, Pointers, View, allowed, argument, split
from kvcheck.sanitizer.shadow.segments import NOBODY, Addresses, Flags, Indices, Segments
from kvcheck.sanitizer.shadow.where import Site

#: What a pointer is that carries no argument's number: made of an integer. It may reach what kvcheck owns.
_LOOSE = Argument("", NOBODY, frozenset(), None)


class Shadow:
    """A watcher of kernels (see `interpreter.Watcher`) that keeps what they do wrong, and performs the rest.

    `spans` are kvcheck's allocations, `extents` those of its tensors, `together` the sets of tensors that may be
    reached through one pointer, `site` finds the line of an access under way.
    """

    def __init__(
        self,
        map_: Segments,
        spans: tuple[tuple[int, int], ...],
        extents: tuple[tuple[int, int], ...],
        together: tuple[frozenset[int], ...],
        site: Callable[[], Site | None],
    ) -> None:
        self.findings: dict[Key, Finding] = {}
        self.kernels: list[str] = []
        self.lanes = 0
        self.seconds = 0.0
        self.unknown = 0
        """Lanes at addresses of which nothing is known: they were neither performed nor judged."""
        self._map, self._spans, self._extents, self._together, self._site = map_, spans, extents, together, site
        self._launch = 0
        self._views: dict[View, Argument] = {}
        self._arguments: list[Argument] = [_LOOSE]
        self._reach: list[Flags] = []
        self._stored: list[tuple[Addresses, int]] = []
        self._bytes: Addresses | None = None

    def begin(self, launch: int) -> None:
        """Launch number `launch`, from 1, of the target starts, on memory that nothing has stored to yet."""
        self._launch = launch
        self._stored, self._bytes = [], None

    def stored(self) -> Addresses:
        """The address of every byte that kernels stored since `begin`, sorted, each once."""
        if self._bytes is None:
            parts = [(starts[:, None] + np.arange(size)).reshape(-1) for starts, size in self._stored]
            self._bytes = np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
        return self._bytes

    def launched(self, kernel: str) -> None:
        """A kernel starts."""
        self.kernels.append(kernel)
        self._arguments, self._reach = [_LOOSE], []

    def received(self, view: View) -> int:
        """The number of a tensor argument."""
        found = self._views.get(view)
        if found is None:
            found = self._views[view] = argument(view, self._map, self._spans)
        self._arguments.append(found)
        self._reach = []
        return len(self._arguments) - 1

    def accessed(self, access: str, pointers: Pointers, size: int, asked: Asked) -> tuple[Pointers, Flags | None]:
        """Judge the lanes of one access: their addresses, and those that may be performed, or None for all."""
        started = time.perf_counter()
        self.lanes += len(pointers)
        numbers, addresses = split(pointers, len(self._arguments) - 1)
        permitted = self._judged(access, numbers, addresses, size, asked)  # type: ignore[arg-type] # one of three
        self.seconds += time.perf_counter() - started
        return addresses.astype(np.uint64), permitted

    def _judged(self, access: Access, numbers: Indices, addresses: Addresses, size: int, asked: Asked) -> Flags | None:
        first = int(numbers[0])
        if (numbers == first).all():
            return self._by_one(access, first, addresses, size, asked)
        permitted = np.ones(len(addresses), np.bool_)
        for number in np.unique(numbers):
            lanes = numbers == number
            some = self._by_one(access, int(number), addresses[lanes], size, asked)
            if some is not None:
                permitted[lanes] = some
        return None if permitted.all() else permitted

    def _by_one(self, access: Access, number: int, addresses: Addresses, size: int, asked: Asked) -> Flags | None:
        """Judge lanes whose pointers come from one argument."""
        one = self._arguments[number]
        if one.own is not None and ((addresses >= one.own[0]) & (addresses + size <= one.own[1])).all():
            return None
        found = self._map.at(addresses)
        holds = self._map.hold(found, addresses, size)
        mine = holds & self._reaches(number)[self._map.owners[found]]
        askew = mine & (addresses % size != 0)
        stray = unset = np.zeros(len(addresses), np.bool_)
        if access != "read":
            stray = mine & ~self._map.due[found]
        if access != "write":
            unset = mine & ~stray & ~self._map.known[found]
            unset &= ~self._written(unset, addresses, size)
        if access != "read":
            self._stored.append((addresses, size))
            self._bytes = None
        if (mine & ~stray & ~unset & ~askew).all():
            return None
        kinds: dict[Kind, Flags] = {
            "foreign": holds & ~mine, "uninitialised": unset, "stray": stray, "misaligned": askew & ~stray & ~unset,
        }  # fmt: skip
        self._keep(access, one, addresses, size, kinds, np.where(holds, self._map.owners[found], NOBODY), asked)
        return self._performed(one, addresses, size)

    def _reaches(self, number: int) -> Flags:
        """What an argument may reach, by owner."""
        count = len(self._extents)
        if not self._reach:
            known = tuple(self._arguments[1:])
            loose = np.ones(count + 1, np.bool_)
            loose[NOBODY] = False
            self._reach = [loose, *(allowed(each, known, self._together, count) for each in known)]
        return self._reach[number]

    def _written(self, asked: Flags, addresses: Addresses, size: int) -> Flags:
        """Of the lanes `asked` about, those all of whose bytes were stored since `begin`."""
        found = np.zeros(len(addresses), np.bool_)
        if asked.any() and self._stored:
            wanted = addresses[asked][:, None] + np.arange(size)
            found[asked] = np.isin(wanted, self.stored()).all(axis=1)
        return found

    def _keep(
        self,
        access: Access,
        one: Argument,
        addresses: Addresses,
        size: int,
        kinds: dict[Kind, Flags],
        hits: Indices,
        asked: Asked,
    ) -> None:
        """Keep what is wrong. `hits` are the tensors whose elements lie at the addresses."""
        outside = (hits == NOBODY) & ~_inside((one.own,) if one.own else (), addresses, size)
        if one is _LOOSE:
            # A table of pointers to memory of the target's own looks like this, and so do some wild pointers.
            elsewhere = ~_inside(self._spans, addresses, size) & (addresses >= 0) & (addresses < CANONICAL)
            self.unknown += int(elsewhere.sum())
            outside &= ~elsewhere
        between = _inside(tuple(self._extents[index] for index in sorted(one.covers)), addresses, size)
        kinds = {**kinds, "gap": outside & between, "out-of-bounds": outside & ~between}
        site, at, made = self._site(), asked.program(), asked.made()
        if site and made and made[:2] == (site.file, site.line):
            made = None
        for kind, lanes in kinds.items():
            for hit in np.unique(hits[lanes]):
                key = Key(kind, access, self.kernels[-1], site, made, one, int(hit), size)
                finding = self.findings.setdefault(key, Finding(self._launch))
                if finding.launch == self._launch:
                    finding.add(addresses[lanes & (hits == hit)], at)

    def _performed(self, one: Argument, addresses: Addresses, size: int) -> Flags | None:
        """The lanes whose memory is known to be there: the others would end the process."""
        there = _inside(self._spans if one.own is None else (*self._spans, one.own), addresses, size)
        return None if there.all() else there


def _inside(spans: tuple[tuple[int, int], ...], addresses: Addresses, size: int) -> Flags:
    """Whether all `size` bytes at each address lie in one of the spans."""
    inside = np.zeros(len(addresses), np.bool_)
    for start, stop in spans:
        inside |= (addresses >= start) & (addresses + size <= stop)
    return inside
