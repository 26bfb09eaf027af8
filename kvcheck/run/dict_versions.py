"""Whether a dictionary has changed, told without touching what it holds. The only place that reads CPython's memory.

In a forked process a look at an object copies the page that it lies on, since looking counts a reference: to look at
all that kvcheck's modules hold costs a small case a tenth of its time. CPython gives a dictionary another version at
every change (PEP 509); it lies behind the object's header and the dictionary's length. Seen on CPython 3.10 to 3.13.
It is private, and other versions have other things there: `Versions` tries it first.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterable, Mapping

#: Where a dictionary's version lies in it, in bytes.
_BEHIND = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)


class Versions:
    """The versions of some dictionaries, as they were when this was made."""

    def __init__(self, dictionaries: Iterable[Mapping[str, object]]) -> None:
        """Take the versions of `dictionaries`, which are held from then on."""
        self._held = tuple(dictionaries)
        self._versions = [_at(one) for one in self._held]
        self._taken = [version.value for version in self._versions]
        self._told = told()

    def unchanged(self) -> bool:
        """Whether none of them has changed since. False wherever it cannot be told."""
        return self._told and [version.value for version in self._versions] == self._taken


def told() -> bool:
    """Whether this Python gives a dictionary another version at a change, of a class's attributes too, and no other."""
    if sys.implementation.name != "cpython":
        return False

    class Sample:
        one: object = min

    module: dict[str, object] = {"one": min}
    for members, change in ((module, module.__setitem__), (members_of(Sample), lambda *of: setattr(Sample, *of))):
        before = _at(members).value
        same = _at(members).value == before and members.get("one") is min
        change("one", max)
        changed = _at(members).value
        change("two", max)
        if not same or len({before, changed, _at(members).value}) != 3:
            return False
    return True


def members_of(kind: type) -> dict[str, object]:
    """The dictionary behind a class's attributes, which Python shows through a proxy."""
    (members,) = gc.get_referents(vars(kind))
    assert isinstance(members, dict)
    return members


def _at(dictionary: Mapping[str, object]) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(id(dictionary) + _BEHIND)
