"""All 2^32 fp32 bit patterns to e4m3fn codes, in blocks of 2^24, against digests that both oracles agreed on.

`python tests/formats/test_sweep.py` writes the digests anew. It takes minutes, and stops where the oracles differ.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from kvcheck.formats import bits, exact
from kvcheck.formats.digests import BLOCKS, FILE, digest, kept


def block_patterns(block: int) -> npt.NDArray[np.uint32]:
    """The 2^24 bit patterns whose upper byte is `block`."""
    return np.arange(block << 24, (block + 1) << 24, dtype=np.int64).astype(np.uint32)


def test_there_is_a_digest_for_every_block() -> None:
    """256 blocks of 2^24 patterns are all 2^32 patterns."""
    assert len(kept()) == BLOCKS


# 0x3A: around 2^-10; 0x3C: around the least normal; 0x43: 128 to 512, saturation; 0x7F: large, infinity and NaN.
@pytest.mark.parametrize("block", [0x3A, 0x3C, 0x43, 0x7F, 0xBA, 0xC3, 0xFF])
def test_bit_oracle_has_the_kept_digests(block: int) -> None:
    """The blocks where codes change most often have the digests that both oracles agreed on."""
    assert digest(bits.encode(block_patterns(block))) == kept()[block]


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(BLOCKS))
def test_both_oracles_agree_on_every_pattern(block: int) -> None:
    """Both oracles give the same codes, and the kept digest, for every fp32 bit pattern there is."""
    patterns = block_patterns(block)
    fast, slow = bits.encode(patterns), exact.encode(patterns)
    assert np.array_equal(fast, slow)
    assert digest(fast) == kept()[block]


def write_digests() -> None:
    """Write the digests of all blocks, each only after both oracles agreed on it."""
    lines = []
    for block in range(BLOCKS):
        patterns = block_patterns(block)
        codes = bits.encode(patterns)
        if not np.array_equal(codes, exact.encode(patterns)):
            raise SystemExit(f"the oracles differ in block {block:#04x}")
        lines.append(digest(codes))
    FILE.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    write_digests()
