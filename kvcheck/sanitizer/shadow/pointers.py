"""Which argument a pointer came from: every tensor argument's address carries the argument's number above it.

A pointer has 64 bits and a user's address 47. An argument's number stands in the upper bits, its address in the middle
of the range below, so that the number stays whatever up to 2^55 is added or taken away: an access far outside every
tensor still says where it set out from. A pointer without a number was made of an integer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvcheck.sanitizer.shadow.segments import NOBODY, Addresses, Flags, Segments

Pointers = npt.NDArray[np.uint64]

_BITS = 56
_MIDDLE = 1 << (_BITS - 1)
#: The greatest number that leaves a pointer positive when it is cast to int64.
MOST = (1 << (63 - _BITS)) - 1
#: An address further than this from zero is not believed to be of the argument whose number it seems to carry.
_BELIEVED = 1 << 52
#: User addresses are below this.
CANONICAL = 1 << 47


def tagged(address: int, number: int) -> int:
    """The pointer that an argument's number, from 1, and address make. Raises ValueError for too many arguments."""
    if number > MOST:
        raise ValueError(f"{number} tensor arguments in one launch; expected {MOST} or fewer")
    return (number << _BITS) + _MIDDLE + address


def split(pointers: Pointers, count: int) -> tuple[npt.NDArray[np.int64], Addresses]:
    """The numbers and addresses of pointers, where numbers to `count` are in use.

    A pointer with none of these has number 0, and is its own address.
    """
    numbers = (pointers >> np.uint64(_BITS)).astype(np.int64)
    numbers[numbers > count] = 0
    whole = pointers.astype(np.int64)
    addresses = whole - (numbers << _BITS) - _MIDDLE
    wild = (numbers == 0) | (np.abs(addresses) > _BELIEVED)
    if wild.any():
        numbers[wild], addresses[wild] = 0, whole[wild]
    return numbers, addresses


@dataclass(frozen=True)
class View:
    """A tensor as a launch received it: its address, dims, strides in elements, bytes of an element and of its memory.

    `memory` is the span of the storage that it is a view of.
    """

    name: str
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    item: int
    memory: tuple[int, int]


@dataclass(frozen=True)
class Argument:
    """What one argument may reach.

    `owner` is the placed tensor that it points to, or NOBODY; `covers` are all those that its view has elements of.
    `own` is the span of memory of the target's own, where the argument is that.
    """

    name: str
    owner: int
    covers: frozenset[int]
    own: tuple[int, int] | None


def argument(view: View, map_: Segments, ours: tuple[tuple[int, int], ...]) -> Argument:
    """What a view points to in a map, where `ours` are the spans of kvcheck's allocations."""
    if not any(start <= view.address < stop for start, stop in ours):
        return Argument(view.name, NOBODY, frozenset(), view.memory)
    if 0 in view.dims:
        return Argument(view.name, NOBODY, frozenset(), None)
    starts, length = _view_runs(view)
    first = map_.at(starts)
    first += map_.stops[first] <= starts  # of a run that begins in a gap, the next segment is the first
    last = map_.at(starts + length - 1)
    marks = np.zeros(len(map_.starts) + 1, np.int64)
    met = first <= last
    np.add.at(marks, first[met], 1)
    np.add.at(marks, last[met] + 1, -1)
    covered = map_.owners[np.cumsum(marks)[:-1] > 0]
    covers = frozenset(int(each) for each in np.unique(covered)) - {NOBODY}
    at = int(map_.owners[map_.at(np.array([view.address]))][0])
    owner = at if at in covers else min(covers, default=NOBODY)
    return Argument(view.name, owner, covers, None)


def _view_runs(view: View) -> tuple[Addresses, int]:
    """Addresses of a view's runs without a gap, and a run's bytes."""
    length, starts = view.item, np.array([view.address])
    axes = sorted(zip(view.strides, view.dims, strict=True))
    for stride, size in axes:
        if size == 1 or stride == 0:
            continue
        if len(starts) == 1 and stride * view.item == length:
            length *= size
        else:
            steps = np.arange(size, dtype=np.int64) * (stride * view.item)
            starts = (starts[:, None] + steps).reshape(-1)
    return starts, length


def allowed(one: Argument, all_: tuple[Argument, ...], together: tuple[frozenset[int], ...], count: int) -> Flags:
    """For each of `count` placed tensors, whether an argument may reach it.

    Tensors that lie `together` (K's and V's codes in a fused cache, codes and inline scales) may be reached through
    each other's pointer, unless the launch has a pointer of their own. The last flag is nobody's.
    """
    flags = np.zeros(count + 1, np.bool_)
    flags[list(one.covers)] = True
    pointed = frozenset().union(*(each.covers for each in all_))
    for group in together:
        if one.covers & group:
            flags[list(group - pointed)] = True
    flags[NOBODY] = False
    return flags
