"""An int8 store with one scale a token and head, head-major pages, scales in pages of their own."""

from __future__ import annotations

import torch
from torch import Tensor

from kvcheck import Cache, Computed, Contract, Form, store_target

from .arithmetic import dense, int8, largest, over


def store_int8_per_token_head(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    k_scale_cache: Tensor,
    v_scale_cache: Tensor,
    slot_mapping: Tensor,
) -> None:
    """Stand-in. Caches are int8 `[blocks, H, block, D]`, scale caches fp32 `[blocks, H, block]`."""
    assert slot_mapping.shape == (len(key),)
    kept = slot_mapping >= 0
    slots = slot_mapping[kept].long()
    for source, cache, scales in ((key, key_cache, k_scale_cache), (value, value_cache, v_scale_cache)):
        heads, block, dim = cache.shape[1:]
        assert cache.dtype == torch.int8
        assert cache.stride() == dense(cache)
        assert source.shape[1:] == (heads, dim)
        assert scales.shape == cache.shape[:3]
        assert scales.dtype == torch.float32
        assert scales.stride() == dense(scales)
        scale = over(largest(source), 127.0).clamp(min=1e-6)
        codes = int8(source.float() / scale[..., None])
        cache[slots // block, :, slots % block] = codes[kept]
        scales[slots // block, :, slots % block] = scale[kept]


@store_target(
    "int8-per-token-head",
    contract=Contract(
        format="int8",
        scale=Computed("token_head", maximum=127.0, eps=1e-6, eps_on="scale", derive="divide"),
        apply="divide",
        nan="undefined",
    ),
    cache=Form("heads_pages", page=8, codes="int8"),
)
def int8_per_token_head(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """The engine's own shapes, codes and scales."""
    store_int8_per_token_head(k, v, cache.k.pages, cache.v.pages, cache.k.scale_pages, cache.v.scale_pages, slots)
