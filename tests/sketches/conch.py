"""conch's `reshape_and_cache`: one given scale a tensor, a paged cache of fp8 elements."""

from __future__ import annotations

import torch
from torch import Tensor

from kvcheck import Cache, Contract, Form, Given, store_target

from .arithmetic import dense, e4m3


def reshape_and_cache(  # noqa: PLR0913, PLR0917 - the engine's own signature
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    kv_cache_dtype: str = "auto",
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    strict: bool = False,
) -> None:
    """Stand-in. `key`, `value` are `[T, H, D]`; caches `[pages, page, H, D]` of fp8; a scale has one element."""
    assert kv_cache_dtype == "fp8"
    assert not strict
    assert slot_mapping.shape == (len(key),)
    kept = slot_mapping >= 0
    slots = slot_mapping[kept].long()
    for source, cache, scale in ((key, key_cache, k_scale), (value, value_cache, v_scale)):
        assert cache.dtype == torch.float8_e4m3fn
        assert cache.shape[2:] == source.shape[1:]
        assert cache.stride() == dense(cache)
        assert scale is not None
        assert scale.shape == (1,)
        assert scale.dtype == torch.float32
        page = cache.shape[1]
        codes = e4m3(source.float() * (torch.ones_like(scale) / scale))
        cache.view(torch.uint8)[slots // page, slots % page] = codes[kept]


@store_target(
    "conch",
    contract=Contract(scale=Given("tensor"), apply="multiply_approx_reciprocal"),
    cache=Form("pages", page=16, codes="float8_e4m3fn"),
)
def conch(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """The scale is an input here."""
    reshape_and_cache(k, v, cache.k.pages, cache.v.pages, slots, "fp8", cache.k.scale, cache.v.scale)
