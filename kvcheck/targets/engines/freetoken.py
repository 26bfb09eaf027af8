"""FreeToken's KV stores: `quantize_kv_to_cache` (its pull request 354) and `store_kv_quant` (several forks).

Both lie in python/freetoken/kernel/triton/kv_quant.py of their checkouts; neither is in a release. The file is loaded
without the rest of FreeToken, with the modules beside it that it imports.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING

from kvcheck.api import Cache, store_target
from kvcheck.contract import Accepts, Computed, Contract, Form
from kvcheck.errors import Refused
from kvcheck.targets.engine import Engine, MissingEngineError

if TYPE_CHECKING:
    from torch import Tensor

GET = "point --engine-path at a checkout that has it, a branch of FlashML-org/FreeToken#354 or a fork"
FREETOKEN = Engine("freetoken.kernel.triton.kv_quant", distribution="freetoken", get=GET, stubs=dict)
FORKS = Engine(
    "freetoken.kernel.triton.kv_quant",
    distribution="freetoken",
    get=GET,
    stubs=dict,
    also=("freetoken.kvcache.quant",),
)


def _with(engine: Engine, function: str, parameter: str = "") -> None:
    """Import an engine that must have a function, with this parameter. Raises MissingEngineError."""
    with engine.use() as module:
        found = getattr(module, function, None)
    if found is None:
        raise MissingEngineError(f"{engine.path()} has no {function}; {GET}")
    if parameter and parameter not in inspect.signature(found).parameters:
        raise MissingEngineError(f"{function} in {engine.path()} has no parameter {parameter}; {GET}")


# `_kv_quant_scatter_kernel` at 03fb0438: the scale is `maximum(amax, 1e-10) / 448`, codes `x / scale`, both with
# Triton's `/`; e4m3_compat documents that -0 becomes +0, and says nothing of NaN. The wrapper's docstring asks for one
# slot a row, rows of all heads flat, and asserts unit stride and equal shapes. Negative slots are not mentioned: the
# kernel would write before the cache. That K and V share one row pitch is taken for granted without a word.
@store_target(
    "freetoken",
    contract=Contract(
        scale=Computed("token_head", maximum=448.0, eps=1e-10, derive="divide_approx"),
        apply="divide_approx",
        nan="undefined",
        negative_zero="drop",
        negative_slots="undefined",
    ),
    accepts=Accepts(head_pitch="dense", inner=1, equal_lengths=True),
    cache=Form("slots", codes="uint8"),
    refuses=(AssertionError,),
    prepare=lambda: _with(FREETOKEN, "quantize_kv_to_cache"),
)
def freetoken(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """Rows of all heads flat, as views."""
    flat_k, flat_v = k.view(len(k), cache.heads * cache.head_dim), v.view(len(v), cache.heads * cache.head_dim_v)
    with FREETOKEN.use() as engine:
        engine.quantize_kv_to_cache(flat_k, flat_v, slots, cache.k.codes, cache.v.codes, cache.k.scales, cache.v.scales)


# `_store_kv_quant_kernel`: the scale of a block of 32 is `amax / MAX_MAG` with Triton's `/`, 1 for a block of zeros,
# rounded to fp16 before it is used; codes are `div_rn(x, scale)`, clamped, rounded by `round_e4m3` (-0 becomes +0, as
# documented there). The docstring gives K and V one shape and one slot a row. That V and its caches have K's strides is
# taken for granted without a word.
FORKS_CONTRACT = Contract(
    scale=Computed("block:32", maximum=448.0, derive="divide_approx", dtype="fp16", zero_row=1.0),
    apply="divide",
    nan="undefined",
    negative_zero="drop",
    negative_slots="undefined",
)
FORKS_ACCEPTS = Accepts(equal_lengths=True)
FORKS_FORM = Form("slots", codes="float8_e4m3fn")


@store_target(
    "freetoken-forks",
    contract=FORKS_CONTRACT,
    accepts=FORKS_ACCEPTS,
    cache=FORKS_FORM,
    refuses=(AssertionError,),
    prepare=lambda: _with(FORKS, "store_kv_quant"),
)
def freetoken_forks(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """K and V of one format: one launch for both."""
    _store(k, v, slots, cache, "FP8_E4M3", apart=False)


# `_store_one_quant_kernel` is the same arithmetic, launched for each side with that side's own strides.
@store_target(
    "freetoken-forks-per-side",
    contract=FORKS_CONTRACT,
    accepts=FORKS_ACCEPTS,
    cache=FORKS_FORM,
    refuses=(AssertionError,),
    prepare=lambda: _with(FORKS, "store_kv_quant", "v_spec"),
)
def freetoken_forks_per_side(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """V's format has another name than K's, so each side has a launch of its own."""
    _store(k, v, slots, cache, "FP8_E4M3", apart=True)


# `IS_INT`: half away from zero, then clamped to ±127.
@store_target(
    "freetoken-forks-int8",
    contract=Contract(
        format="int8",
        scale=Computed("block:32", maximum=127.0, derive="divide_approx", dtype="fp16", zero_row=1.0),
        apply="divide",
        rounding="half_away",
        nan="undefined",
        negative_slots="undefined",
    ),
    accepts=FORKS_ACCEPTS,
    cache=Form("slots", codes="int8"),
    refuses=(AssertionError,),
    prepare=lambda: _with(FORKS, "store_kv_quant"),
)
def freetoken_forks_int8(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """Int8 in blocks of 32."""
    _store(k, v, slots, cache, "Q8_0", apart=False)


def _store(k: Tensor, v: Tensor, slots: Tensor, cache: Cache, spec: str, *, apart: bool) -> None:
    if cache.head_dim != cache.head_dim_v:
        raise Refused("store_kv_quant documents K and V of one head_dim")
    with FORKS.use() as engine:
        from freetoken.kvcache import quant  # type: ignore[import-not-found]  # noqa: PLC0415 - there within `use` alone

        one = getattr(quant, spec)
        specs = (one, replace(one, name=f"{one.name} of V")) if apart else (one,)
        engine.store_kv_quant(cache.k.codes, cache.k.scales, cache.v.codes, cache.v.scales, slots, k, v, *specs)
