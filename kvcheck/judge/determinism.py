"""Channel 5: equal launches leave equal bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvcheck.judge.first import Part, first_stored, split
from kvcheck.judge.subject import Bytes, Mask
from kvcheck.schema import DeterminismVerdict


def determinism_verdict(
    stored: Sequence[Bytes], wrong: Sequence[Mask], comparable: Mask, parts: Sequence[Part]
) -> DeterminismVerdict:
    """How the bytes of each launch, `stored` of `parts`, and its `wrong` ones moved; shared slots are left out.

    Both figures describe wrong bytes too ("positions stay, values drift"), which no other channel does. Bytes that
    another channel condemned cannot make the outcome worse: a wrong byte is a mismatch already.
    """
    anywhere, everywhere = np.logical_or.reduce(wrong), np.logical_and.reduce(wrong)
    repeated = len(stored) == 4
    drift = comparable & (stored[0] != stored[3]) if repeated else np.zeros_like(comparable)
    k, v = split(parts, drift)
    return DeterminismVerdict(
        launches=len(stored),
        positions_drift=int((anywhere & ~everywhere & comparable).sum()),
        values_drift=k + v,
        k_drift=k,
        v_drift=v,
        first=first_stored(parts, drift, stored[3], stored[0], 4) if repeated else None,
    )


def repeat_is_missing(stored: Sequence[Bytes], due: Mask) -> bool:
    """Whether launches 1 and 3 differ in bytes `due` to be judged, and no fourth says what that means."""
    return len(stored) == 3 and bool((stored[0] != stored[2])[due].any())
