"""Layouts: how an allocator leaves blocks in memory, and what lies around them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from kvcheck.addresses import extent
from kvcheck.memory.blocks import STEP, Block, Fill
from kvcheck.memory.fences import FENCES, Side
from kvcheck.schema import ITEMSIZE, Placed, Region

#: The slab that stands for the caching allocator's small pool.
SLAB = 2 << 20


class Laid(msgspec.Struct, frozen=True):
    """Allocations by size in bytes, and the tensors and regions in them."""

    allocations: tuple[int, ...]
    tensors: tuple[Placed, ...]
    regions: tuple[Region, ...]


def arena(blocks: tuple[Block, ...]) -> Laid:
    """One allocation: guard, block, guard, block … guard. Each half of a guard belongs to the block it touches."""
    guard = guard_of(blocks)
    tensors: list[Placed] = []
    regions: list[Region] = []
    free = 0  # where bytes begin that belong to no block yet
    for block in blocks:
        before = guard // 2 if tensors else guard
        start = _aligned(free + before, block.align)
        end = start + block.size
        after = guard if block is blocks[-1] else guard // 2
        stop = _up(end + after, STEP)
        regions += [_region(block, 0, *span) for span in ((free, start), (start, end), (end, stop))]
        tensors += _moved(block, 0, start)
        free = stop
    return Laid((free,), tuple(tensors), _kept(regions))


def slab(blocks: tuple[Block, ...]) -> Laid:
    """One zeroed slab, blocks at steps of 512 bytes: what a caching allocator's small pool gives a fresh process."""
    return _in_slab(blocks, "zeros")


def recycled(blocks: tuple[Block, ...]) -> Laid:
    """The slab of a process that has worked for a while: between blocks lies what earlier tensors left."""
    return _in_slab(blocks, "ordinary")


def separate(blocks: tuple[Block, ...]) -> Laid:
    """One allocation a block, of exactly its size."""
    sizes: list[int] = []
    tensors: list[Placed] = []
    regions: list[Region] = []
    for index, block in enumerate(blocks):
        start = _aligned(0, block.align)
        sizes.append(start + max(block.size, 1))
        regions.append(_region(block, index, start, start + block.size, unpoisoned=True))
        tensors += _moved(block, index, start)
    return Laid(tuple(sizes), tuple(tensors), _kept(regions))


def fenced(blocks: tuple[Block, ...], side: Side) -> Laid:
    """One allocation a block, whose end or beginning lies at unmapped memory; parents are cut to what K and V use.

    Less than `least` bytes of a block's fill lie between its tensors and the fence, where they would otherwise be less
    aligned than the case says, or the target takes.
    """
    sizes: list[int] = []
    tensors: list[Placed] = []
    regions: list[Region] = []
    for index, block in enumerate(blocks):
        first, last = _used(block)
        lead = first % block.least
        tail = -last % block.least if side == "end" else 0
        size = lead + last - first + tail
        sizes.append(max(size, 1))
        regions.append(_region(block, index, 0, size, unpoisoned=True))
        tensors += _moved(block, index, lead - first)
    return Laid(tuple(sizes), tuple(tensors), _kept(regions))


def _used(block: Block) -> tuple[int, int]:
    """The first byte of a parent that K or V has, and the one behind the last; all of another block."""
    if block.fill != "poison":
        return 0, block.size
    spans = [span for span in map(extent, block.tensors) if span[0] < span[1]]
    return (min(start for start, _ in spans), max(stop for _, stop in spans)) if spans else (0, 0)


def layout(name: str, *, cuda: bool) -> Callable[[tuple[Block, ...]], Laid] | None:
    """The layout of that name, or None. On CUDA `pooled` is what the real caching allocator makes of the blocks."""
    known: dict[str, Callable[[tuple[Block, ...]], Laid]] = {
        "arena": arena,
        "pooled": separate if cuda else slab,
        "recycled": recycled,
        "exact": separate,
        **{fence: partial(fenced, side=side) for fence, side in FENCES.items()},
    }
    return known.get(name)


def guard_of(blocks: tuple[Block, ...]) -> int:
    """Bytes between blocks: further than any tensor's rows reach at any tensor's strides."""
    tensors = [tensor for block in blocks for tensor in block.tensors]
    longest = max(block.size for block in blocks)
    for rank in {len(tensor.dims) for tensor in tensors}:
        alike = [tensor for tensor in tensors if len(tensor.dims) == rank]
        most = [max(tensor.dims[axis] for tensor in alike) for axis in range(rank)]
        for tensor in alike:
            reach = sum(count * stride for count, stride in zip(most, tensor.strides, strict=True))
            longest = max(longest, reach * ITEMSIZE[tensor.dtype])
    return _up(longest + 1, STEP)


def _in_slab(blocks: tuple[Block, ...], gaps: Fill) -> Laid:
    tensors: list[Placed] = []
    regions: list[Region] = []
    source = next((block for block in blocks if block.fill == "poison"), None)
    around = Block(0, "zeros", "", "uint8", ()) if source is None else Block(0, gaps, source.owner, source.dtype, ())
    cursor = 0
    for block in blocks:
        start = _aligned(_up(cursor, STEP), block.align)
        regions.append(_region(around, 0, _up(cursor, 4), start))
        regions.append(_region(block, 0, start, start + block.size, unpoisoned=True))
        tensors += _moved(block, 0, start)
        cursor = start + max(block.size, 1)
    size = max(SLAB, _up(cursor, STEP))
    regions.append(_region(around, 0, _up(cursor, 4), size))
    return Laid((size,), tuple(tensors), _kept(regions))


def _region(block: Block, allocation: int, start: int, stop: int, *, unpoisoned: bool = False) -> Region:
    """A region of a block's fill. A fill of larger elements starts in phase with the block's tensors: see `align`."""
    fill: Fill = "ordinary" if unpoisoned and block.fill == "poison" else block.fill
    return Region(allocation, start, stop, fill, block.owner, block.dtype)


def _kept(regions: list[Region]) -> tuple[Region, ...]:
    return tuple(region for region in regions if region.start < region.stop)


def _moved(block: Block, allocation: int, start: int) -> list[Placed]:
    return [
        msgspec.structs.replace(tensor, allocation=allocation, offset=start + tensor.offset) for tensor in block.tensors
    ]


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _aligned(value: int, align: int) -> int:
    """The next multiple of STEP, plus what makes an address a multiple of `align` and of nothing larger."""
    base = _up(value, STEP)
    return base if align >= 16 else base + align
