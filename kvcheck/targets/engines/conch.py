"""conch's `reshape_and_cache`: fp8 pages, one given scale a tensor.

Read in conch-triton-kernels 1.3. The contract's terms come from `_reshape_and_cache_kernel` in
conch/kernels/vllm/reshape_and_cache.py: the scale is inverted, values are multiplied by that in fp32 (a bf16 tile times
an fp32 scalar), the store's cast saturates, and a negative slot returns. The shapes are those of its docstring.

What the default path takes for granted without a word is not declared here, so that a run shows it: equal strides of K
and V and of their caches, heads as far apart in the cache as in K, unit strides, dense slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcheck.api import Cache, store_target
from kvcheck.contract import Contract, Form, Given
from kvcheck.targets.engine import Engine

if TYPE_CHECKING:
    from torch import Tensor

CONCH = Engine(
    "conch.ops.vllm.reshape_and_cache",
    distribution="conch-triton-kernels",
    get="pip install conch-triton-kernels, or --engine-path with a checkout of it",
)

#: `1.0 / k_scale` and the product are Triton's `/` and `*`: an approximate reciprocal.
CONTRACT = Contract(scale=Given("tensor"), apply="multiply_approx_reciprocal", negative_slots="skip")
FORM = Form("pages", page=16, codes="float8_e4m3fn", scales="none")


@store_target("conch", contract=CONTRACT, cache=FORM, prepare=CONCH.require)
def conch(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """As vLLM-like engines call it: `strict` is off by default."""
    _store(k, v, slots, cache, strict=False)


#: `strict` asserts equal strides and sizes of K and V in the launcher, and raises ValueError for shapes in
#: conch/ops/vllm/reshape_and_cache.py `_validate_sizes`: these are refusals.
@store_target(
    "conch-strict", contract=CONTRACT, cache=FORM, refuses=(AssertionError, ValueError), prepare=CONCH.require
)
def conch_strict(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """With the checks that `strict=True` turns on."""
    _store(k, v, slots, cache, strict=True)


def _store(k: Tensor, v: Tensor, slots: Tensor, cache: Cache, *, strict: bool) -> None:
    with CONCH.use() as engine:
        engine.reshape_and_cache(k, v, cache.k.pages, cache.v.pages, slots, "fp8", cache.k.scale, cache.v.scale, strict)
