"""What a compiler made of a kernel, as frozen data."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Compiled: TypeAlias = Literal["compiled", "failed", "none"]


class CompileFact(msgspec.Struct, frozen=True):
    """What became of one kernel of a target, compiled for one arch.

    `failed` is the fault `compile-failure`. `none` means that the target launched no kernel of Triton's, or could not
    be called where there is no GPU: nothing is known then, and `error` says why.
    """

    arch: str
    kernel: str
    """The kernel's name; empty for `none`, and where the compiler died before it said which."""
    outcome: Compiled
    error: str = ""
    """Why not, in one line: the compiler's own message, as far as it has one."""
    log: str = ""
    """All that the compiler said, shortened, where it failed."""
    target: str = ""
    """The target directive of the assembly, `sm_89`."""
    casts: dict[str, int] = {}
    """Instructions that round to an 8-bit or a 16-bit float, and how often each occurs."""
    divisions: dict[str, int] = {}
    """Instructions that divide or take a reciprocal, and how often each occurs."""
    fp_fusion: bool | None = None
    """Whether a multiplication and an addition may become one; None where the compiler does not say."""
    launches: int = 1
    """How many launches of the cases came to exactly this."""

    @property
    def fault(self) -> str | None:
        """The fault's name, or None."""
        return "compile-failure" if self.outcome == "failed" else None
