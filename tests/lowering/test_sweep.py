"""The models of archs on all 2^32 fp32 inputs, in blocks of 2^24, against kept digests.

`python -m tests.lowering.test_sweep` writes the digests of sm_89's model anew: of each block only after the exact
oracle, which shares no code with the model, gave the same codes. It takes minutes. Those of the other archs are the
plain oracle's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvcheck.errors import SelectionError
from kvcheck.formats import bits, digests, exact
from kvcheck.formats.digests import kept
from kvcheck.lowering.archs import Source
from kvcheck.lowering.sweep import BLOCK, BLOCKS, block_patterns, digest, half_patterns, model_codes, model_digest

#: The last Triton that casts for sm_89 in two steps, and the first that does not.
TWO_STEPS, ONE_STEP = "3.8.0", "3.9.0"
VIA_FP16 = Path(__file__).parent / "data" / "e4m3fn_via_fp16_rtz.sha256"
NEAREST = digests.FILE
#: Non-NaN inputs whose code sm_89's cast of two steps gets wrong, as counted on an H200.
WRONG_ON_SM_89 = 1_032_066

# Around the least normal code; 128 to 512; large, infinite and NaN; and the same below zero.
SOME = [0x3C, 0x43, 0x7F, 0xBC, 0xC3, 0xFF]


def test_block_patterns_are_the_patterns_with_that_upper_byte() -> None:
    """A block holds 2^24 ascending patterns that begin with its number."""
    patterns = block_patterns(0xC3)
    assert (patterns.size, int(patterns[0]), int(patterns[-1])) == (BLOCK, 0xC3000000, 0xC3FFFFFF)
    assert patterns.dtype == np.uint32


@pytest.mark.parametrize("block", [-1, 256])
def test_blocks_outside_are_refused(block: int) -> None:
    """There are 256 blocks, from 0."""
    with pytest.raises(ValueError, match="not one of 0 to 255"):
        block_patterns(block)


def test_half_patterns_are_all_values_of_bf16_and_fp16() -> None:
    """All 2^16 bit patterns, widened: 1.0 stands where its own bits say."""
    assert half_patterns("bf16")[0x3F80] == 0x3F800000
    assert half_patterns("fp16")[0x3C00] == 0x3F800000
    assert half_patterns("fp16").size == half_patterns("bf16").size == 1 << 16


def test_fp32_has_no_half_patterns() -> None:
    """fp32 has too many values for one array."""
    with pytest.raises(ValueError, match="2\\^16"):
        half_patterns("fp32")


@pytest.mark.parametrize("source", ["bf16", "fp16"])
@pytest.mark.parametrize("arch", ["sm_89", "sm_90"])
def test_half_sources_are_right_on_every_arch(arch: str, source: Source) -> None:
    """All 2^16 bf16 and fp16 inputs are rounded to nearest even, by the exact oracle, on sm_89 too."""
    patterns = half_patterns(source)
    assert np.array_equal(model_codes(arch, patterns, source, triton=TWO_STEPS), exact.encode(patterns))


def test_an_arch_without_fp8_has_no_codes() -> None:
    """The reason is the compiler's."""
    with pytest.raises(SelectionError, match="sm_80: type fp8e4nv not supported"):
        model_codes("sm_80", block_patterns(0))


@pytest.mark.parametrize("block", SOME)
def test_sm_89_has_the_kept_digests(block: int) -> None:
    """Two steps, with a Triton before 3.9."""
    assert model_digest("sm_89", block, triton=TWO_STEPS)[:16] == kept(VIA_FP16)[block]


@pytest.mark.parametrize(("arch", "triton"), [("sm_90", TWO_STEPS), ("sm_120", TWO_STEPS), ("sm_89", ONE_STEP)])
def test_other_archs_have_the_digests_of_nearest_even(arch: str, triton: str) -> None:
    """One step, which both oracles of the formats agreed on."""
    assert model_digest(arch, 0x43, triton=triton)[:16] == kept(NEAREST)[0x43]


def test_kept_digests_differ_where_two_steps_can() -> None:
    """From 2^-9 to 448 the two lowerings differ; far below and above they cannot."""
    pairs = list(zip(kept(VIA_FP16), kept(NEAREST), strict=True))
    assert len(pairs) == BLOCKS
    differing = [block for block, (one, other) in enumerate(pairs) if one != other]
    assert differing == [*range(0x3A, 0x44), *range(0xBA, 0xC4)]


@pytest.mark.exhaustive
def test_sm_89_is_wrong_as_often_as_an_h200_counted() -> None:
    """1 032 066 of 2^32 inputs, NaN apart, have another code; every block has its kept digest."""
    wrong = 0
    for block in range(BLOCKS):
        patterns = block_patterns(block)
        codes = model_codes("sm_89", patterns, triton=TWO_STEPS)
        assert digest(codes)[:16] == kept(VIA_FP16)[block]
        wrong += int((codes != bits.encode(patterns)).sum())
    assert wrong == WRONG_ON_SM_89


def write_digests() -> None:
    """Write the digests of all blocks, each only after both oracles agreed on it."""
    lines, wrong = [], 0
    for block in range(BLOCKS):
        patterns = block_patterns(block)
        codes = model_codes("sm_89", patterns, triton=TWO_STEPS)
        if not np.array_equal(codes, exact.encode(patterns, rounding="via_fp16_rtz")):
            raise SystemExit(f"the oracles differ in block {block:#04x}")
        wrong += int((codes != bits.encode(patterns)).sum())
        lines.append(digest(codes)[:16])
    VIA_FP16.write_text("\n".join(lines) + "\n", encoding="ascii")
    raise SystemExit(None if wrong == WRONG_ON_SM_89 else f"{wrong} codes differ; an H200 counted {WRONG_ON_SM_89}")


if __name__ == "__main__":
    write_digests()
