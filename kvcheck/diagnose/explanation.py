"""What one fault says of an emission: the bytes that it reproduces, one by one, so that faults can share them out."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


#: From this cost on an explanation says on what bytes depend, and does not give them: the others come first, and where
#: they have explained a tensor's bytes they have explained that, too.
SAYS_ONLY = 5


@dataclass(frozen=True, eq=False)  # arrays have no one equality
class Explanation:
    """A fault that gives some of the emitted wrong bytes exactly.

    `codes` `[n, heads, dim]` and `scales` `[n, *groups]` mark the wrong codes and scales of launch 1 that it
    reproduces, of `Facts.tokens`; None where it says nothing of them. `others` counts other condemned bytes that it
    explains (lost, stray, changed, differing), of `of_others`. `cost` is what it assumes beyond the contract, in
    parameters. `says` is its sentence, to which what it explains is added. `beside` are further causes of the same
    bytes, without which it would not give them: they are named after it. `of_rows` marks what makes bytes of K's and
    V's values and given scales alone: bytes that change with what stood in the cache are none of its. `unknown`
    `[n, heads]` marks rows that it takes from memory whose bytes are not known: nothing is said of what they hold.
    `of_writes` marks what says where a tensor's codes, or its scales, were put instead: as a rule one mistake for both.
    """

    fault: str
    tensor: str
    codes: Mask | None
    scales: Mask | None
    others: int
    of_others: int
    cost: int
    says: str
    evidence: dict[str, int | float | str | list[int]] = field(default_factory=dict)
    beside: tuple[Explanation, ...] = ()
    of_rows: bool = False
    unknown: Mask | None = None
    of_writes: bool = False
