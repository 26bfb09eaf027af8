"""What was seen at one line: accesses of one kind, by one argument, to one place, of all programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from kvcheck.sanitizer.shadow.pointers import Argument
from kvcheck.sanitizer.shadow.segments import Addresses
from kvcheck.sanitizer.shadow.where import Site

Kind: TypeAlias = Literal["out-of-bounds", "gap", "foreign", "uninitialised", "stray", "misaligned"]
Access: TypeAlias = Literal["read", "write", "atomic"]

#: A program of a grid.
Grid: TypeAlias = tuple[int, int, int]

#: File, line, function.
Line: TypeAlias = tuple[str, int, str]

#: Addresses that a finding keeps, so that a kernel gone wild does not fill the memory. All lanes are counted.
KEPT = 1 << 20


@dataclass(frozen=True)
class Asked:
    """What is looked up only for an access that is wrong: the program, and the line that computed the pointers."""

    program: Callable[[], Grid]
    made: Callable[[], Line | None]


class Key(NamedTuple):
    """What accesses have in common that are one finding."""

    kind: Kind
    access: Access
    kernel: str
    site: Site | None
    made: Line | None
    """File, line and function that computed the pointer, where that is another line."""
    argument: Argument
    """What the pointer came from."""
    hit: int
    """The tensor whose element was hit, or NOBODY."""
    size: int


@dataclass
class Finding:
    """How often, by which programs, and where, in the first launch of the target that shows it."""

    launch: int
    count: int = 0
    programs: set[Grid] = field(default_factory=set)
    kept: int = 0
    lanes: list[tuple[Grid, Addresses]] = field(default_factory=list)
    """Addresses, by the program that they are of."""

    def add(self, addresses: Addresses, program: Grid) -> None:
        """Lanes of one program."""
        self.count += len(addresses)
        self.programs.add(program)
        if self.kept < KEPT:
            self.lanes.append((program, addresses[: KEPT - self.kept]))
            self.kept += len(addresses)

    def where(self) -> Addresses:
        """The addresses, sorted, each once."""
        return np.unique(np.concatenate([addresses for _, addresses in self.lanes]))
