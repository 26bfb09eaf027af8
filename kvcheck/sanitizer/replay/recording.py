"""What one launch of a target was: its kernels' code, grids and arguments, and the rows that it left."""

from __future__ import annotations

import msgspec


class Argument(msgspec.Struct, frozen=True):
    """A kernel's parameter: `data`, the bytes of a plain value, or a pointer.

    A pointer leads `delta` bytes past the first element of `tensor`, a name in the placement, or past the begin of
    memory number `own` of the target's own. With neither it is null.
    """

    data: bytes = b""
    pointer: bool = False
    tensor: str = ""
    own: int | None = None
    delta: int = 0


class KernelLaunch(msgspec.Struct, frozen=True):
    """One kernel of the launch, in the order in which they were started."""

    name: str
    """As it stands in the code, and as a sanitizer names it."""
    code: bytes
    """A cubin, or PTX that ends in a zero byte."""
    grid: tuple[int, int, int]
    threads: int
    """Threads of a block, all along x."""
    shared: int
    """Bytes of dynamic shared memory."""
    scratch: int
    """Bytes of global scratch memory for each block."""
    arguments: tuple[Argument, ...]


class Recording(msgspec.Struct, frozen=True):
    """All kernels of one launch of the target."""

    kernels: tuple[KernelLaunch, ...]
    own: tuple[bytes, ...]
    """What the target's own memory held before the first kernel that was handed it."""
    rows: dict[str, bytes]
    """The addressed rows that the launch left, as in `Launch.rows`."""
    launch: int
    """Which launch of the case it was, from 1."""
    reason: str = ""
    """Why it cannot be made again; empty where it can."""
