"""Kernels as engines have them, written before any was run: the fault of each, and what a diagnosis says of it."""

from __future__ import annotations

from kvcheck.schema import Case

from .unseen import LAST, PROJECTED, TRAPS, UNLIKE, Unseen

#: A latent row of four blocks; values beyond every limit; static scales of an odd row; rows of zeros in a padded batch;
#: tokens that share slots.
LATENT = Case(tokens=4, heads=1, head_dim=256, k_view="kv", v_values="normal*0.01", slots="permuted")
LARGE = Case(tokens=4, head_dim=80, dtype="fp32", k_values="normal*1e4", v_values="normal*1e4", v_view="qkv")
STATIC = Case(tokens=5, head_dim=46, dtype="fp32", k_scale="0.0123", v_scale="0.0123", k_view="kv", slots="permuted")
PADDING = Case(tokens=6, heads=4, head_dim=64, slots="negative_mixed", k_values="zero_rows", v_values="zero_rows")
SHARED = Case(tokens=6, head_dim=80, slots="duplicates", k_values="normal*5")

ENGINES = {
    "engine_flat": (
        Unseen("flat-scales-transposed", PROJECTED, "scale-layout", "written as in [heads, slots]"),
        Unseen(
            "flat-scale-at-token", PROJECTED, "scale-address", "written to the slots that have the tokens' own numbers"
        ),
        Unseen("flat-previous-token", PROJECTED, "foreign-read", "is read one token early: token t from row t - 1"),
        Unseen(
            "flat-through-e5m2",
            PROJECTED,
            "format-confusion",
            "those of values rounded to e5m2 before they are rounded to e4m3fn",
        ),
        Unseen(
            "flat-clamp-first",
            TRAPS,
            "early-saturation",
            "those of values clamped at 448 before their scale is applied",
        ),
        Unseen("flat-bf16-reciprocal", PROJECTED, "scale-rounded", "those of the scale's reciprocal rounded to bf16"),
        Unseen(
            "flat-fp32-as-bf16",
            TRAPS,
            "reinterpreted-source",
            "is read as bf16 within each head, strides counted in its elements",
        ),
        Unseen("flat-k-into-v", PROJECTED, "foreign-read", "is read from K, with K's strides"),
    ),
    "engine_paged": (
        Unseen("paged-slot-by-heads", PROJECTED, "cache-layout", "written as in pages of 3 rows; declared 8"),
        Unseen(
            "paged-contiguous-slots",
            PROJECTED,
            "cache-layout",
            "one behind the other from slot 3 on, that of the first token",
        ),
        Unseen(
            "paged-last-row-skipped",
            UNLIKE,
            "page-boundary",
            "that are the last of a page of 8 are never stored: those of slots 7, 15",
        ),
        Unseen("paged-one-row-late", PROJECTED, "cache-layout", "written to other slots, each +1 from its own"),
        Unseen(
            "paged-scale-of-first-in-four",
            PROJECTED,
            "amax-population",
            "largest magnitude of the first of every 4 tokens",
        ),
        Unseen(
            "paged-running-max",
            PROJECTED,
            "uninitialised-read",
            "rows follow what stood in the cache before the launch",
        ),
        Unseen(
            "paged-v-by-k-pages",
            UNLIKE,
            "sibling-cache-stride",
            "written with page stride 2560 (K's cache's); declared 1024",
        ),
        Unseen(
            "hnd-codes-as-nhd",
            PROJECTED,
            "cache-layout",
            "written as in [pages, rows, heads, dim] within a page, page stride 1920",
        ),
        Unseen(
            "hnd-scales-as-nhd",
            PROJECTED,
            "scale-address",
            "written side by side, page stride 24, row stride 3, head stride 1",
        ),
        Unseen(
            "table-request-zero",
            PROJECTED,
            "cache-layout",
            "written to other slots: 9 to 1, 23 to 7, 20 to 4, in the pages",
        ),
        Unseen(
            "table-offset-by-seven",
            PROJECTED,
            "page-boundary",
            "written to other slots: 23 to 16, at the edges of pages of 8 rows alone",
        ),
    ),
    "engine_given": (
        Unseen("given-whole-vectors", STATIC, "tail-mask", "of lanes 128 to 137 of each token are never stored"),
        Unseen("given-dense-row", LAST, "dense-heads", "is read with head pitch 64 (dense); declared 80"),
        Unseen(
            "given-head-of-128", PROJECTED, "scale-address", "the head that each element is of where head_dim is 128"
        ),
        Unseen("given-head-by-token", PROJECTED, "scale-address", "those of the scale of head t % heads for token t"),
        Unseen("given-scale-in-bf16", STATIC, "scale-rounded", "those of the scale rounded to bf16"),
        Unseen(
            "given-pitch-and-scale-of-k",
            PROJECTED,
            "sibling-pitch",
            "is read with token pitch 720; declared 240 (the pitch is K's)",
        ),
        Unseen("given-unmasked-stores", PROJECTED, "stray-write", "in slots that no token names"),
        Unseen(
            "packed-k-then-v",
            PROJECTED,
            "cache-layout",
            "written as in [pages, heads, rows, dim] within a page, page stride 3840",
        ),
    ),
    "engine_int8": (
        Unseen("int8-no-abs", PROJECTED, "amax-population", "largest magnitude of the positive elements"),
        Unseen(
            "int8-amax-of-last-block",
            PROJECTED,
            "amax-population",
            "largest magnitude of each row's elements from 64 on",
        ),
        Unseen("int8-per-128", PROJECTED, "wrong-max", "those of 128 for the largest value, where 127 is due"),
        Unseen("int8-zero-point", PROJECTED, "format-confusion", "those of int8 plus 128, from 0 to 255"),
        Unseen("int8-static-wraps", LARGE, "overflow-to-nan", "not limited: what is too large runs over into the sign"),
    ),
    "engine_latent": (
        Unseen(
            "latent-rope-by-latent-scale", LATENT, "amax-population", "those of other blocks' elements: block 3 has 2's"
        ),
        Unseen("latent-rope-first", LATENT, "cache-layout", "stand in another order within each head: 64 places on"),
        Unseen("latent-amax-of-pairs", LATENT, "amax-population", "largest magnitude of 2 blocks together"),
        Unseen("latent-scales-by-columns", LATENT, "scale-layout", "written as in [heads, blocks, slots]"),
        Unseen(
            "latent-scales-of-128",
            LATENT,
            "scale-layout",
            "written 2 blocks to one place, block b at b // 2, where one of them stays",
        ),
    ),
    "engine_eager": (
        Unseen(
            "eager-amax-wrong-axis",
            PROJECTED,
            "amax-population",
            "largest magnitude of the token's elements, dealt to its heads",
        ),
        Unseen(
            "eager-amax-of-all-tokens", PROJECTED, "amax-population", "largest magnitude of each head over all tokens"
        ),
        Unseen("eager-scale-used-in-bf16", PROJECTED, "scale-rounded", "those of the scale rounded to bf16"),
        Unseen(
            "eager-heads-first",
            PROJECTED,
            "foreign-read",
            "is read with its rows for one another: token 0, head 1 is token 1, head 0",
        ),
        Unseen("eager-shared-amax", PROJECTED, "amax-population", "largest magnitude of K and V together"),
        Unseen("eager-next-on-grid", PROJECTED, "rounding-mode", "rounded away from zero"),
        Unseen("eager-heads-reversed-and-cut", PROJECTED, "foreign-read", "is read with head pitch -80"),
        Unseen("eager-through-half", LARGE, "double-rounding-fp16", "rounded to fp16 before they are scaled"),
        Unseen(
            "eager-neox-to-gptj",
            PROJECTED,
            "cache-layout",
            "stand in another order within each head: as a matrix of 2 by 40",
        ),
        Unseen(
            "eager-half-the-range",
            PROJECTED,
            "amax-population",
            "largest magnitude of half the range from least to greatest",
        ),
        Unseen(
            "eager-no-eps",
            PADDING,
            "zero-row",
            "have no least value: rows of zeros, or of less than it, get smaller ones",
        ),
        Unseen("eager-negative-clamped", TRAPS, "negative-slot", "are stored, at slot 0"),
    ),
    "engine_loops": (
        Unseen("loop-advances-first", PROJECTED, "offset-ignored", "is read from 80 elements behind its first one"),
        Unseen("loop-pairs-of-heads", PROJECTED, "tail-mask", "of head 2 of each token are never stored"),
        Unseen("loop-scale-of-previous-head", PROJECTED, "scale-address", "those of the head before, 1 for the first"),
        Unseen(
            "loop-torn-duplicates", SHARED, "duplicate-slot", "holds the codes of token 1 with the scale of token 3"
        ),
        Unseen("loop-bias-of-128", PROJECTED, "scale-misapplied", "kept 2 times as large as due"),
        Unseen("loop-odd-token-dropped", PROJECTED, "token-lost", "of the last token (4 of 5) are never stored"),
        Unseen(
            "inline-scale-first",
            PROJECTED,
            "cache-layout",
            "written with row stride 288, head stride 96, +4 elements from their begin",
        ),
        Unseen("inline-big-endian", PROJECTED, "scale-layout", "stored with their bytes the other way round"),
        Unseen(
            "inline-scale-eight-late",
            PROJECTED,
            "scale-address",
            "written with row stride 72, head stride 24, +2 elements from their begin",
        ),
    ),
}

#: The right ones of each file, with a case that they take.
SOUND = {
    "engine_flat": ("flat-sound",),
    "engine_paged": ("paged-sound", "hnd-sound", "table-sound"),
    "engine_given": ("given-sound", "given-head-sound", "packed-sound"),
    "engine_int8": ("int8-sound", "int8-static-sound"),
    "engine_latent": ("latent-sound",),
    "engine_eager": ("eager-sound",),
    "engine_loops": ("loop-sound", "loop-e8m0-sound", "inline-sound"),
}
