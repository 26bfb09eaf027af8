"""Given scales: numbers that a case hands to the kernel."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from kvcheck.draw import factors

ACCEPTED = f"{factors.ACCEPTED}, within fp32"

#: With a scale a head, the first eight are the value times 2 to these powers, the next eight that times 1 1/8, and
#: so on up to 1 7/8: 64 heads of unlike scales, so that a kernel that takes another head's shows wherever it may.
HEAD_POWERS = (0, 1, -1, 2, -2, 3, -3, 4)

#: So that no head's scale is a zero or an infinity in fp32.
_LEAST, _GREATEST = 2.0**-120, 2.0**120


def check(spec: str) -> str | None:
    """Say why `spec` is no scale, or None where it is one."""
    value = factors.parse(spec)
    if value is None:
        return f"{spec!r} is not {factors.ACCEPTED}"
    if not _LEAST <= value <= _GREATEST:
        return f"{spec!r} is outside 2^-120..2^120"
    return None


def given(spec: str, granularity: Literal["tensor", "head"], heads: int) -> npt.NDArray[np.float32]:
    """Return the scales as float32: `[1]` for one a tensor; `[heads]` for one a head, of which no 64 are alike.

    Raises ValueError where `spec` is no scale.
    """
    reason = check(spec)
    value = factors.parse(spec)
    if reason is not None or value is None:
        raise ValueError(reason)
    base = np.float32(value)
    if granularity == "tensor":
        return np.array([base], dtype=np.float32)
    return np.array([base * np.float32(_factor(head)) for head in range(heads)], dtype=np.float32)


def _factor(head: int) -> float:
    """What a head's scale is the value times: at most four significant bits, so that fp16 and bf16 keep them apart."""
    octave, index = divmod(head, len(HEAD_POWERS))
    return float(2.0 ** HEAD_POWERS[index] * (1 + octave % 8 / 8))
