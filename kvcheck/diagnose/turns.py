"""Rows that the programs of a small grid take in turns: whoever keeps something of one row has it at the next."""

from __future__ import annotations

from collections.abc import Iterator

#: Programs that there may be.
PROGRAMS = (1, 2, 4, 8)


def turns(heads: int) -> Iterator[tuple[str, int]]:
    """How far apart a program's rows may be, rows being counted head by head and token by token; its words first.

    Programs take either rows in turns, or the tokens of a head of their own.
    """
    for programs in PROGRAMS:
        yield "" if programs == 1 else f" of its program, one of {programs} in turns", programs
    for programs in PROGRAMS if heads > 1 else ():
        named = " of its head" if programs == 1 else f" of its head and program, one of {programs} in turns"
        yield named, programs * heads
