"""Why an emission is wrong. `diagnose/` makes diagnoses from a verdict, best first."""

from __future__ import annotations

import msgspec


class Diagnosis(msgspec.Struct, frozen=True):
    """A fault, the tensor it is in, and how many of the wrong bytes it explains."""

    fault: str
    tensor: str
    explains: int
    of: int
    says: str
    evidence: dict[str, int | float | str | list[int]]
