"""Kernels that were written before any of them was run: the fault that each has, and what a diagnosis says of it."""

from __future__ import annotations

from dataclasses import dataclass

from kvcheck.schema import Case

#: Cases in which most of them show: unlike views, dtypes, values of either tensor, slots and caches.
PROJECTED = Case(
    tokens=5, head_dim=80, k_view="qkv", k_values="normal*5", v_values="normal*0.01", slots="permuted"
)  # fmt: skip
TRAPS = Case(
    tokens=5, head_dim=96, dtype="fp32", v_view="kv", slots="negative_mixed", k_values="traps", v_values="normal*1e4",
    v_cache="head_padded", k_scale="0.0123",
)  # fmt: skip
UNLIKE = Case(
    tokens=9, head_dim=128, heads=2, slots="page_edges", head_dim_v=64, k_cache="padded", dtype="fp16",
    k_values="outlier", slot_view="every_second",
)  # fmt: skip
LAST = Case(
    tokens=7, heads=4, head_dim=64, layout="pooled", k_values="overflow*2^-4", v_values="midpoints",
    k_view="head_padded", slots="last",
)  # fmt: skip


@dataclass(frozen=True)
class Unseen:
    """A kernel by its target's name, a case that shows its fault, and words of the first diagnosis."""

    target: str
    case: Case
    fault: str
    words: str


NUMBERS = (
    Unseen("amax-not-reset", PROJECTED, "amax-population", "each head and those before it"),
    Unseen("scale-read-too-soon", PROJECTED, "uninitialised-read", ""),
    Unseen("scales-two-apart", PROJECTED, "scale-address", "head stride 2; declared row stride 3, head stride 1"),
    Unseen("scale-in-fp16", PROJECTED, "scale-rounded", "rounded to fp16 when they are kept"),
    Unseen("half-block-amax", UNLIKE, "amax-population", "each block's first 16 elements"),
    Unseen("exponent-less-eight", UNLIKE, "scale-rounded", "the amax's power of two less that of 448"),
    Unseen("bf16-after-the-amax", UNLIKE, "double-rounding-bf16", "rounded to bf16 after their scales are made"),
    Unseen("scales-of-the-next-slot", PROJECTED, "scale-address", "those of the token before"),
    Unseen("amax-without-a-warp", PROJECTED, "amax-population", "each row's elements but 32 to 63"),
    Unseen("scale-of-the-last-head", PROJECTED, "scale-address", "those of the last head's scale"),
    Unseen("no-limit", LAST, "overflow-to-nan", "runs over into the sign"),
    Unseen("ties-toward-zero", LAST, "rounding-mode", "ties toward zero"),
    Unseen("subnormals-cut", LAST, "rounding-mode", "toward zero where they are subnormal"),
    Unseen("limited-above", LAST, "overflow-to-nan", "for negative values beyond the largest"),
    Unseen("up-from-a-quarter", PROJECTED, "rounding-mode", "rounded to either neighbour"),
    Unseen("half-added", PROJECTED, "rounding-mode", "cut off after half was added"),
    Unseen("scale-limited", UNLIKE, "wrong-max", "no more than 0.00195312"),
    # Where no head fills its lanes, ones beyond it are a least value of one: no single case can tell.
    Unseen("masked-lanes-are-ones", PROJECTED, "zero-row", "a least value of 1 on the amax"),
)

#: Rows of five heads, which vectors of 16 bytes do not divide once a scale lies behind each.
WIDE = Case(tokens=6, heads=5, head_dim=96, k_values="normal*2^-20", v_view="head_padded")

PLACES = (
    Unseen("whole-chunks", PROJECTED, "tail-mask", "codes of lanes 128 to 239 of each token are never stored"),
    Unseen("slots-as-int32", PROJECTED, "cache-layout", "written to other slots: 1 to 19, 4 to 0, 21 to 1"),
    Unseen("slots-side-by-side", UNLIKE, "cache-layout", "written to other slots"),
    Unseen("padded-head-dim", PROJECTED, "cache-layout", "row stride 240, head stride 128; declared"),
    Unseen("k-v-alternate", PROJECTED, "cache-layout", "row stride 480, head stride 80; declared row stride 240"),
    Unseen("pitch-of-q-heads", PROJECTED, "foreign-read", "token pitch 960; declared 240"),
    Unseen("head-modulo", PROJECTED, "head-mapping", "with heads [0, 2, 1] for heads 0 to 2"),
    Unseen("split-by-16", PROJECTED, "cache-layout", "as in [dim / 16, heads, 16] within a row"),
    Unseen("window-of-eight", UNLIKE, "cache-layout", "31 to 7, 30 to 6, 13 to 5, the remainders of 8"),
    # Rows that are stored in each other's slots are rows that were read from each other's place.
    Unseen("sorted-slots", PROJECTED, "foreign-read", ""),
    Unseen("rows-at-vectors", WIDE, "misaligned", "vectors of 16 bytes, each head's offset in its row rounded down"),
    # So are those of K and V.
    Unseen("caches-exchanged", PROJECTED, "foreign-read", "from "),
    Unseen("inline-pad-ignored", PROJECTED, "cache-layout", "row stride 252, head stride 84; declared row stride 288"),
    Unseen("pair-beyond-the-end", PROJECTED, "foreign-read", "one token late"),
    Unseen("as-many-tokens-as-heads", PROJECTED, "token-lost", "the last 2 of 5 tokens"),
    Unseen("last-head-masked", PROJECTED, "tail-mask", "codes of head 2 of each token"),
    Unseen("slot-zero-skipped", UNLIKE, "token-lost", ""),
    Unseen("minus-one-stored", TRAPS, "negative-slot", ""),
    Unseen("other-16-bit-type", PROJECTED, "reinterpreted-source", "is read as fp16; its numbers are bf16"),
    Unseen("pages-of-16", PROJECTED, "cache-layout", "as in pages of 16 rows; declared 8"),
    Unseen("v-transposed", PROJECTED, "cache-layout", "as in [heads, dim, rows] within a page, rows innermost"),
)
