"""Digests of the right e4m3fn codes of all 2^32 fp32 patterns, one for each block of 2^24, kept beside this file.

Each was written only after both oracles, `bits` and `exact`, gave the same codes. Whoever else encodes every input can
be held against them without encoding anything here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

#: Blocks of all 2^32 fp32 bit patterns, and the patterns in each, in ascending order as unsigned numbers.
BLOCKS, BLOCK = 256, 1 << 24
#: To nearest even, saturating, NaN canonical, -0 kept.
FILE = Path(__file__).parent / "data" / "e4m3fn_rne_saturate.sha256"


def kept(file: Path = FILE) -> list[str]:
    """The digests of all blocks, in order."""
    return file.read_text(encoding="ascii").split()


def digest(codes: npt.NDArray[np.uint8]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of codes, one byte each."""
    return hashlib.sha256(np.ascontiguousarray(codes).data).hexdigest()[:16]
