"""What sanitizers say: one access, the accesses of one cause, and one case under one tool (`sanitizer/`)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

SanitizerKind: TypeAlias = Literal[
    "out-of-bounds",
    "uninitialised",
    "foreign",
    "gap",
    "stray",
    "misaligned",
    "race",
    "barrier",
    "leak",
    "unused",
    "api",
    "assert",
    "other",
]
"""What a sanitizer's record is of. `foreign`: another tensor's memory; `gap`: between the rows of a strided tensor;
`stray`: a store to an element that is not to be stored."""

Side: TypeAlias = Literal["", "inside", "gap", "before", "after"]
"""Where an address lies by a tensor: in an element, between its elements, before its first byte, after its last."""


class SanitizerAccess(msgspec.Struct, frozen=True):
    """One access as one thread made it, as a tool saw it. Unattributed; `SanitizerRecord` is many of them, folded."""

    tool: str
    """`memcheck`, `initcheck`, `racecheck`, `synccheck`, or `shadow` for kvcheck's own check on the CPU."""
    kind: SanitizerKind
    says: str
    """The tool's own words."""
    access: Literal["", "read", "write", "atomic"] = ""
    address: int | None = None
    """The lowest byte; None where the tool names none."""
    size: int = 0
    """Bytes; 0 where the tool names none."""
    kernel: str = ""
    file: str = ""
    line: int = 0
    block: tuple[int, int, int] | None = None
    """The program, for Triton."""
    thread: tuple[int, int, int] | None = None
    space: str = ""
    """`global`, `shared`, `local` …, where the tool says so."""
    count: int = 1
    """Accesses that this one stands for: the tool may fold some itself."""
    host: tuple[str, ...] = ()
    """Host frames, `file:line function`, the launch's first."""


class SanitizerRecord(msgspec.Struct, frozen=True):
    """One cause: what one tool saw at one line of a kernel, on one side of one tensor, all its threads folded."""

    tool: str
    kind: SanitizerKind
    says: str
    access: Literal["", "read", "write", "atomic"] = ""
    size: int = 0
    """Bytes of one access."""
    kernel: str = ""
    file: str = ""
    line: int = 0
    source: str = ""
    """The text of that line, where the file is here."""
    tensor: str = ""
    """Whose memory it is, or is nearest to; a `Placed.name`. Empty: none of the case's."""
    side: Side = ""
    first: int | None = None
    """The nearest access, in bytes: from the tensor's end for `after` (0: the byte that follows it), before its start
    for `before` (1: the byte that precedes it), from its start for `inside` and `gap`. None: no address is known."""
    last: int | None = None
    """The farthest access, counted likewise."""
    pitch: int | None = None
    """The token pitch, in elements, at which every access of the group falls into a row of the tensor, if any does."""
    tokens: tuple[int, ...] = ()
    """The rows that the accesses would be at that pitch."""
    heads: tuple[int, ...] = ()
    threads: str = ""
    """Thread indices, folded: `0-127`, or `0-31,0-1,0`."""
    blocks: str = ""
    """Block indices (Triton's programs), folded likewise."""
    count: int = 1
    """Accesses in all."""
    host: tuple[str, ...] = ()
    made: str = ""
    """The line that computed the pointer, `file:line function`, where it is another and the tool can tell."""
    through: str = ""
    """The kernel's argument that the pointer came from, where the tool can tell."""
    memory: str = ""
    """Whose memory was hit, where it is another tensor's than `tensor`, which the pointer is of."""


class SanitizerRun(msgspec.Struct, frozen=True):
    """One case under one tool. `clean` only where the tool was seen to attach, to finish, and to report nothing."""

    tool: str
    memory: str
    """How the tensors lay: `pooled`, `exact`, `fence`; the case's own layout for `shadow`."""
    way: Literal["replay", "whole", "interpreted"]
    state: Literal["clean", "records", "inconclusive"]
    reason: str = ""
    """Why it is inconclusive."""
    records: tuple[SanitizerRecord, ...] = ()
    counted: int = 0
    """Errors by the tool's own count."""
    seconds: float = 0.0
    agreement: str = ""
    """How the records and the codes' diagnosis stand to each other, in one sentence."""
    unknown: tuple[str, ...] = ()
    """Parts of the tool's output that kvcheck does not know, as they stood."""
    left_out: tuple[str, ...] = ()
    """Kernels of torch's own of which the tool has records that are not among these, and how many: not under test."""
