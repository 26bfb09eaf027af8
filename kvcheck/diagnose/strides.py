"""The wrong maps from (page, row, head) to a place that kernels are known to have, as destinations."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvcheck.addresses import layer_pitch
from kvcheck.diagnose.destination import Destination, Evidence, by_places
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.pages import within_pages
from kvcheck.diagnose.part import Part
from kvcheck.schema import ITEMSIZE, Placed, Tensor

Strides = tuple[int, ...]

LAYER_REMAP = "layer-remap"


def wrong_maps(facts: Facts, part: Part) -> list[Destination]:
    """Every named map that leads a part elsewhere than where it is due, each set of places once."""
    made = list(_in_other_layers(facts, part))
    named = _of_codes(facts, part) if part.kind == "codes" else _of_scales(facts, part)
    for fault, used, words, cost in named:
        made.append(_destination(part, fault, used, words, cost))
    # The token's number where its slot is due; the same bytes where both are equal.
    fault = "cache-layout" if part.kind == "codes" else "scale-address"
    words = "written to the slots that have the tokens' own numbers"
    made.append(Destination(fault, part.at(part.placed, part.side.rows.tokens), 1, words, {}))
    made += within_pages(part, fault)
    for step in (1, -1):
        words = f"written to other slots, each {step:+d} from its own"
        made.append(Destination(fault, part.at(part.placed, part.side.rows.slots + step), 2, words, {"step": step}))
    return by_places(each for each in made if (each.at != part.due_at).any())


def sibling(tensor: Tensor) -> Tensor:
    """The other of K and V."""
    return "v" if tensor == "k" else "k"


def dense_rows(placed: Placed) -> Strides:
    """Strides of a dense `[pages, rows, heads, ...]` tensor of these dims."""
    found = [1]
    for size in reversed(placed.dims[1:]):
        found.insert(0, found[0] * size)
    return tuple(found)


def dense_heads(placed: Placed) -> Strides:
    """Strides of a dense `[pages, heads, rows, ...]` tensor, in the order of `placed`'s dims."""
    _, page, heads, *inner = placed.dims
    width = 1
    for size in inner:
        width *= size
    return (page * heads * width, width, page * width, *((1,) if inner else ()))


def named_strides(placed: Placed) -> str:
    """A cache tensor's strides in words."""
    page, row, head = placed.strides[:3]
    if placed.dims[1] == 1:
        return f"row stride {page}, head stride {head}"
    return f"page stride {page}, row stride {row}, head stride {head}"


def _destination(part: Part, fault: str, used: Placed, words: str, cost: int) -> Destination:
    evidence: Evidence = {"strides_used": list(used.strides), "strides_declared": list(part.placed.strides)}
    if used.offset != part.placed.offset:
        evidence |= {"begin_used": used.offset, "begin_declared": part.placed.offset}
    return Destination(fault, part.at(used), cost, words, evidence)


def _with(placed: Placed, strides: Strides, offset: int | None = None) -> Placed:
    begin = placed.offset if offset is None else offset
    return msgspec.structs.replace(placed, strides=strides, offset=begin)


def _in_other_layers(facts: Facts, part: Part) -> Iterator[Destination]:
    """The same place of every other layer, and of the one that would be behind the last."""
    own, given, layers = part.placed, facts.emission.case.layer, facts.emission.case.layers
    pitch = layer_pitch(own) * ITEMSIZE[own.dtype]
    for layer in range(layers + 1 if layers > 1 else 0):
        if layer != given:
            at = part.at(_with(own, own.strides, own.offset + (layer - given) * pitch))
            which = f"of layer {layer}" if layer < layers else "that a layer behind the last would have"
            words = f"written into the cache {which}; that of layer {given} was given"
            yield Destination(LAYER_REMAP, at, 1, words, {"layer_used": layer, "layer_given": given})


def _of_codes(facts: Facts, part: Part) -> Iterator[tuple[str, Placed, str, int]]:
    own = part.placed
    page, row, head, inner = own.strides
    theirs = facts.emission.placement.get(f"{sibling(part.side.rows.tensor)}_codes")
    other = sibling(part.side.rows.tensor).upper()
    declared = f"declared {named_strides(own)}"
    dense, heads_first = dense_rows(own), dense_heads(own)
    shape = f"from the shape; {declared}"
    # Where the stride of pages alone is wrong and the shape gives it, the shape is a simpler source than the sibling.
    by_shape = _with(own, (dense[0], row, head, inner))
    if own.dims[1] > 1:
        yield "page-stride-from-shape", by_shape, _pages(own, dense[0]), 1
    for strides in _mixtures(own.strides, theirs.strides):
        used = _with(own, strides)
        yield "sibling-cache-stride", used, f"written with {_unlike(used, own, f'''{other}'s cache's''')}", 1
    yield "page-stride-from-shape", by_shape, _pages(own, dense[0]), 1
    for strides, order in ((dense, "[pages, rows, heads, dim]"), (heads_first, "[pages, heads, rows, dim]")):
        fault = "page-stride-from-shape" if _like(own, strides) else "cache-layout"
        inside = _with(own, (page, *strides[1:]))
        yield "cache-layout", inside, f"written as in {order} within a page, {named_strides(inside)}; {declared}", 2
        used = _with(own, strides)
        yield fault, used, f"written as in a dense {order}, {named_strides(used)}, {shape}", 3
    yield "cache-layout", _with(own, (page, head, row, inner)), f"written with row and head exchanged; {declared}", 2
    transposed = (page, row, 1, own.dims[2])
    words = f"written as in [dim, heads] within a row, heads innermost; {declared}"
    yield "cache-layout", _with(own, transposed), words, 2
    if theirs.allocation == own.allocation:
        yield "cache-layout", _with(own, own.strides, theirs.offset), f"written where {other}'s belong", 1
        yield from _interleaved(own, theirs, other)


def _interleaved(own: Placed, theirs: Placed, other: str) -> Iterator[tuple[str, Placed, str, int]]:
    """K and V of one page or row in turns: element by element, or head by head."""
    page, row, head, inner = own.strides
    first, behind = min(own.offset, theirs.offset), own.offset > theirs.offset
    if own.dims != theirs.dims or abs(own.offset - theirs.offset) >= own.strides[0]:
        return
    width = own.dims[3]
    for strides, step, what in (((page, row, head, 2), 1, "element"), ((page, row, 2 * width, inner), width, "head")):
        used = _with(own, strides, first + behind * step)
        yield "cache-layout", used, f"written {what} by {what} in turns with {other}'s", 2


def _of_scales(facts: Facts, part: Part) -> Iterator[tuple[str, Placed, str, int]]:
    own = part.placed
    tensor = part.side.rows.tensor
    other = sibling(tensor).upper()
    theirs = facts.emission.placement.get(f"{sibling(tensor)}_scales")
    codes = part.side.codes
    declared = f"declared {named_strides(own)}"
    page, row, head, *inner = own.strides
    dense = dense_rows(own)
    used = _with(own, dense)
    yield "scale-address", used, f"written side by side, {named_strides(used)}; {declared}", 1
    for strides in _mixtures(own.strides, theirs.strides):
        used = _with(own, strides)
        yield "scale-address", used, f"written with {_unlike(used, own, f'''those of {other}'s scales''')}", 1
    yield "scale-address", _with(own, (dense[0], row, head, *inner)), _pages(own, dense[0]), 1
    width = codes.dims[3]
    by_codes = (codes.strides[0] // width, codes.strides[1] // width, codes.strides[2] // width, *inner)
    if by_codes[2]:
        used = _with(own, by_codes)
        yield "scale-address", used, f"written at the codes' offsets by {width}, {named_strides(used)}; {declared}", 2
    slots = own.dims[0] * own.dims[1]
    block = own.dims[3] if inner else 1
    head_major = (own.dims[1] * block, block, slots * block, *inner)
    yield "scale-layout", _with(own, head_major), f"written as in [heads, slots]; {declared}", 2
    if own.dims[1] > 1:
        in_page = dense_heads(own)
        yield "scale-layout", _with(own, in_page), f"written as in dense pages of [heads, rows]; {declared}", 2
        used = _with(own, (page, *in_page[1:]))
        yield "scale-layout", used, f"written as in [heads, rows] within a page; {declared}", 2
    yield "scale-layout", _with(own, (page, *dense[1:])), f"written as in [rows, heads] within a page; {declared}", 2
    if inner:
        columns = (own.dims[1], 1, slots * block, slots)
        yield "scale-layout", _with(own, columns), f"written as in [heads, blocks, slots]; {declared}", 2
        turned = (page, row, 1, own.dims[2])
        yield "scale-layout", _with(own, turned), f"written as in [blocks, heads] within a row; {declared}", 2
    if theirs.allocation == own.allocation and ITEMSIZE[theirs.dtype] == ITEMSIZE[own.dtype]:
        yield "scale-address", _with(own, own.strides, theirs.offset), f"written where {other}'s belong", 1


def _mixtures(own: Strides, theirs: Strides) -> Iterator[Strides]:
    """The sibling's strides for one's own: all of them, those of pages and rows alone, those of heads alone."""
    yield theirs
    yield (*theirs[:2], *own[2:])
    yield (theirs[0], *own[1:])
    yield (*own[:2], *theirs[2:])


def _unlike(used: Placed, own: Placed, whose: str) -> str:
    """The strides that differ, and what was declared of them."""
    names = ("row stride", "", "head stride") if own.dims[1] == 1 else ("page stride", "row stride", "head stride")
    pairs = zip(names, used.strides, own.strides, strict=False)
    apart = [(name, mine, due) for name, mine, due in pairs if mine != due and name]
    if not apart:
        return f"strides {used.strides} ({whose}); declared {own.strides}"
    said = ", ".join(f"{name} {mine}" for name, mine, _ in apart)
    return f"{said} ({whose}); declared {', '.join(str(due) for _, _, due in apart)}"


def _pages(own: Placed, used: int) -> str:
    name = "rows" if own.dims[1] == 1 else "pages"
    return f"written to {name} {used} elements apart, as their shape says; declared {own.strides[0]}"


def _like(own: Placed, strides: Strides) -> bool:
    """Whether heads and rows are nested in the same order."""
    if own.dims[1] == 1 or own.dims[2] == 1:
        return True
    return (own.strides[1] > own.strides[2]) == (strides[1] > strides[2])
