"""One case under shadow memory, from the first launch to the records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kvcheck.sanitizer.shadow.describe import TOOL, records
from kvcheck.sanitizer.shadow.interpreter import is_launch, shown
from kvcheck.sanitizer.shadow.segments import Rows, extents, segments
from kvcheck.sanitizer.shadow.shadow import Shadow
from kvcheck.sanitizer.shadow.where import site
from kvcheck.schema import Placement, SanitizerRun

Bytes = npt.NDArray[np.uint8]


class Watched:
    """What shadow memory saw of a case, and why it cannot vouch for it, where it cannot."""

    def __init__(self, shadow: Shadow, placement: Placement, bases: tuple[int, ...], rows: Rows) -> None:
        self.shadow = shadow
        self.doubt: str | None = None
        self._placement, self._bases, self._rows = placement, bases, rows

    def begin(self, launch: int) -> None:
        """Launch number `launch` of the target starts, on memory that has been filled anew."""
        self.shadow.begin(launch)

    def end(self, before: tuple[Bytes, ...], after: tuple[Bytes, ...]) -> None:
        """It has ended: compare what changed in each allocation with what the kernels were seen to store."""
        unseen = 0
        stored = self.shadow.stored()
        for base, was, now in zip(self._bases, before, after, strict=True):
            changed = np.flatnonzero(was != now) + base
            unseen += int((~np.isin(changed, stored)).sum())
        if unseen and self.doubt is None:
            bytes_ = f"{unseen} byte{'' if unseen == 1 else 's'}"
            self.doubt = f"{bytes_} changed that no Triton kernel was seen to store: something else stores too"

    def run(self) -> SanitizerRun:
        """All of it."""
        shadow = self.shadow
        doubt = self.doubt
        if doubt is None and shadow.unknown:
            doubt = f"{shadow.unknown} accesses, through pointers that come from no argument, could not be followed"
        found = records(shadow.findings, self._placement, self._bases, self._rows)
        quiet = "" if shadow.kernels else "no Triton kernel was launched"
        return SanitizerRun(
            tool=TOOL,
            memory=self._placement.layout,
            way="interpreted",
            state="records" if found else ("inconclusive" if doubt else "clean"),
            reason=doubt or quiet,
            records=found,
            counted=sum(record.count for record in found),
            seconds=round(shadow.seconds, 4),
        )


@contextlib.contextmanager
def watch(
    placement: Placement, bases: tuple[int, ...], rows: Rows, together: tuple[frozenset[str], ...] = ()
) -> Iterator[Watched]:
    """Check every access of the kernels that the block launches. `bases` are the addresses of the allocations.

    `rows` are the rows that are addressed, by tensor: slots of `k_codes`, `v_codes`, `k_scales` and `v_scales`, and,
    for a load target, tokens of `out_k` and `out_v`. Tensors named `together` may be reached through one pointer.
    Raises ImportError or AttributeError where this Triton cannot be watched; ValueError where tensors overlap.
    """
    sizes = zip(bases, placement.allocations, strict=True)
    spans = tuple((base, base + size) for base, size in sizes)
    numbers = {tensor.name: index for index, tensor in enumerate(placement.tensors)}
    sets = tuple(frozenset(numbers[name] for name in group if name in numbers) for group in together)
    map_ = segments(placement, bases, rows)
    shadow = Shadow(map_, spans, extents(placement, bases), sets, lambda: site(is_launch))
    with shown(shadow):
        yield Watched(shadow, placement, bases, rows)
