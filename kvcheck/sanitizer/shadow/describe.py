"""Findings as records: whose memory, which side, how far, which row it would be, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvcheck.sanitizer.fold import indices, ranges
from kvcheck.sanitizer.shadow.elements import Reading, guess, pitch_of, reading, row_axes
from kvcheck.sanitizer.shadow.findings import Finding, Key
from kvcheck.sanitizer.shadow.segments import NOBODY, Addresses, Rows, extents
from kvcheck.schema import ITEMSIZE, Placed, Placement, SanitizerRecord, Side

TOOL = "shadow"

NAMES = {
    "k": "K", "v": "V", "k_codes": "K's codes", "v_codes": "V's codes", "k_scales": "K's scales",
    "v_scales": "V's scales", "k_scale": "K's given scale", "v_scale": "V's given scale", "out_k": "K's output",
    "out_v": "V's output", "slots": "the slot ids",
}  # fmt: skip

_VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}


class Describer:
    """Turns findings on a placement, whose allocations begin at `bases`, into records. `rows` are those addressed."""

    def __init__(self, placement: Placement, bases: tuple[int, ...], rows: Rows) -> None:
        self._placement, self._bases, self._rows = placement, bases, rows
        self._extents = extents(placement, bases)

    def record(self, key: Key, finding: Finding) -> SanitizerRecord:
        """One record."""
        addresses = finding.where()
        meant = key.argument.owner if key.argument.owner != NOBODY else key.hit
        side, first, last = self._distance(meant, addresses, key)
        read = self._read(meant, addresses) or self._guess(meant, finding)
        late = f" (only from launch {finding.launch} on)" if finding.launch > 1 else ""
        return SanitizerRecord(
            tool=TOOL,
            kind=key.kind,
            says=self._says(key, addresses, side, (first or 0, last or 0), read) + late,
            access=key.access,
            size=key.size,
            kernel=key.kernel,
            file=key.site.file if key.site else "",
            line=key.site.line if key.site else 0,
            source=key.site.source() if key.site else "",
            tensor=self._tensor(meant).name if meant != NOBODY else "",
            side=side,
            first=first,
            last=last,
            pitch=read.pitch if read else None,
            tokens=read.rows if read else (),
            heads=read.heads if read else (),
            blocks=indices(finding.programs),
            count=finding.count,
            host=key.site.callers if key.site else (),
            made=f"{key.made[0]}:{key.made[1]} {key.made[2]}" if key.made else "",
            through=key.argument.name,
            memory=self._tensor(key.hit).name if key.hit not in (NOBODY, meant) else "",
        )

    def _tensor(self, index: int) -> Placed:
        return self._placement.tensors[index]

    def _read(self, index: int, addresses: Addresses) -> Reading | None:
        if index == NOBODY:
            return None
        tensor = self._tensor(index)
        return reading(tensor, self._bases[tensor.allocation], addresses)

    def _guess(self, index: int, finding: Finding) -> Reading | None:
        """The rows that were meant, at another pitch than the tensor's."""
        if index == NOBODY:
            return None
        tensor = self._tensor(index)
        base = self._bases[tensor.allocation]
        return guess(self._placement, tensor, base, finding.lanes, self._rows.get(tensor.name))

    def _span(self, meant: int, key: Key) -> tuple[int, int] | None:
        return self._extents[meant] if meant != NOBODY else key.argument.own

    def _distance(self, meant: int, addresses: Addresses, key: Key) -> tuple[Side, int | None, int | None]:
        """The side, and the nearest and farthest access as `SanitizerRecord` counts them."""
        span = self._span(meant, key)
        if span is None:
            return "", None, None
        start, stop = span
        after, before = addresses + key.size > stop, addresses < start
        if after.all():
            return "after", max(int(addresses[0]) - stop, 0), max(int(addresses[-1]) - stop, 0)
        if before.all():
            return "before", start - int(addresses[-1]), start - int(addresses[0])
        if (after | before).any():
            return "", None, None
        return ("gap" if key.kind == "gap" else "inside"), int(addresses[0]) - start, int(addresses[-1]) - start

    def _says(self, key: Key, addresses: Addresses, side: Side, distance: tuple[int, int], read: Reading | None) -> str:
        """The finding in one sentence without a subject: the kernel's line is that."""
        verb = _VERBS[key.access]
        if key.kind == "uninitialised":
            return f"{verb} what nothing has stored: {self._elements(key.hit, addresses)}"
        if key.kind == "stray":
            return f"{verb} what is not to be stored: {self._elements(key.hit, addresses)}"
        if key.kind == "misaligned":
            return f"{verb} {self._elements(key.hit, addresses)}, {key.size} bytes at no multiple of {key.size}"
        meant = key.argument.owner
        name = self._name(key)
        if not key.argument.name and meant == NOBODY:
            what = f"{verb} through a pointer that no argument leads to"
        elif key.kind == "gap":
            what = f"{verb} between the rows of {name}"
        elif side in ("after", "before"):
            edge = "past the end of" if side == "after" else "before the start of"
            what = f"{verb} {_far(*distance)} {edge} {name}"
        else:
            what = f"{verb} outside the elements of {name}"
        if key.hit != NOBODY:
            hit = f", on {self._elements(key.hit, addresses)}"
        else:
            hit = "" if key.kind == "gap" else self._landing(addresses, key.size)
        return what + self._would_be(meant, addresses, read) + hit

    def _name(self, key: Key) -> str:
        owner = key.argument.owner
        if owner != NOBODY:
            return NAMES.get(self._tensor(owner).name, self._tensor(owner).name)
        return f"argument {key.argument.name}, " + (
            "which has no element of any tensor" if key.argument.own is None else "the target's own"
        )

    def _would_be(self, meant: int, addresses: Addresses, read: Reading | None) -> str:
        """The rows that the addresses would be, at the pitch that makes them some."""
        if meant == NOBODY:
            return ""
        tensor = self._tensor(meant)
        unit = _unit(tensor)
        if read is not None and read.whose:
            whose = "that of dense rows" if read.whose == "dense" else f"{_owner(read.whose)}'s"
            pitch = f"{whose}; {_owner(tensor.name)}'s is {pitch_of(tensor)}"
            return f" ({_rows(unit, read.rows)} at pitch {read.pitch}, {pitch})"
        pitch_ = pitch_of(tensor) * ITEMSIZE[tensor.dtype]
        if read is not None or not pitch_ or row_axes(tensor) > 1:
            return ""
        base = self._bases[tensor.allocation] + tensor.offset
        rows = tuple(int(row) for row in np.unique((addresses - base) // pitch_))
        if rows[0] < tensor.dims[0]:
            return ""
        return f" (where {_rows(unit, rows)} would be; there are {tensor.dims[0]})"

    def _elements(self, index: int, addresses: Addresses) -> str:
        """`K's codes, slot 3, head 0`."""
        tensor = self._tensor(index)
        read = self._read(index, addresses)
        name = NAMES.get(tensor.name, tensor.name)
        if read is None:
            return name
        heads = f", {_rows('head', read.heads)}" if len(tensor.dims) > row_axes(tensor) else ""
        return f"{name}, {_rows(_unit(tensor), read.rows)}{heads}"

    def _landing(self, addresses: Addresses, size: int) -> str:
        """What lies where no element does."""
        places: list[str] = []
        for tensor, (start, stop) in zip(self._placement.tensors, self._extents, strict=True):
            if ((addresses >= start) & (addresses < stop)).any():
                places.append(f"between the rows of {NAMES.get(tensor.name, tensor.name)}")
        spans = [(base, base + bytes_) for base, bytes_ in zip(self._bases, self._placement.allocations, strict=True)]
        inside = np.zeros(len(addresses), np.bool_)
        for start, stop in spans:
            inside |= (addresses >= start) & (addresses + size <= stop)
        if not inside.all():
            places.append("outside every allocation")
        return f", {_joined(places)}" if places else ""


def _far(near: int, far: int) -> str:
    """How far from a tensor's edge, in bytes: 0 is right at its end."""
    if near == far:
        return "right" if near == 0 else f"{_grouped(near)} byte{'' if near == 1 else 's'}"
    return f"{_grouped(near)} to {_grouped(far)} bytes"


def _grouped(number: int) -> str:
    """`7 680`."""
    return f"{number:,}".replace(",", " ")


def _unit(tensor: Placed) -> str:
    if row_axes(tensor) == 2:
        return "slot"
    return "token" if tensor.name in ("k", "v", "out_k", "out_v") else "element"


def _owner(name: str) -> str:
    return name.partition("_")[0].upper() if name[:2] in ("k_", "v_") or name in ("k", "v") else name


def _rows(unit: str, rows: Sequence[int]) -> str:
    return f"{unit}{'' if len(rows) == 1 else 's'} {ranges(rows)}"


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def records(
    findings: dict[Key, Finding], placement: Placement, bases: tuple[int, ...], rows: Rows
) -> tuple[SanitizerRecord, ...]:
    """Every finding as a record, by line. `rows` are those that the case addresses, by tensor."""
    describer = Describer(placement, bases, rows)
    made = [describer.record(key, finding) for key, finding in findings.items()]
    return tuple(sorted(made, key=lambda each: (each.file, each.line, each.kind, each.tensor, each.memory)))
