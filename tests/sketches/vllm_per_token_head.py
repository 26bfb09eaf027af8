"""vLLM's per-token-head store: each scale lies behind its head's codes, seen as fp32 through the code rows."""

from __future__ import annotations

import torch
from torch import Tensor

from kvcheck import Cache, Computed, Contract, Form, Side, store_target

from .arithmetic import e4m3, largest, over

#: The engine's own name is longer than a line leaves room for.
Sources = tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def triton_reshape_and_cache_flash_per_token_head_quant(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    k_scale_cache: Tensor,
    v_scale_cache: Tensor,
    slot_mapping: Tensor,
) -> None:
    """Stand-in. Caches are `[blocks, block, H, D]` of bytes, scale caches `[blocks, block, H]` fp32; none is dense."""
    sides: Sources = ((key, key_cache, k_scale_cache), (value, value_cache, v_scale_cache))
    assert slot_mapping.shape == (len(key),)
    kept = slot_mapping >= 0
    slots = slot_mapping[kept].long()
    for source, cache, scales in sides:
        block, heads, dim = cache.shape[1:]
        width = dim + 4
        assert cache.dtype == torch.uint8
        assert source.shape[1:] == (heads, dim)
        assert cache.stride() == (block * heads * width, heads * width, width, 1)
        assert scales.dtype == torch.float32
        assert scales.shape == cache.shape[:3]
        assert scales.stride() == tuple(stride // 4 for stride in cache.stride()[:3])
        assert scales.data_ptr() == cache.data_ptr() + dim
        scale = over(largest(source), 448.0).clamp(min=1e-6)
        codes = e4m3(source.float() * (torch.ones_like(scale) / scale)[..., None])
        cache[slots // block, slots % block] = codes[kept]
        scales[slots // block, slots % block] = scale[kept]


def scale_column(side: Side, dim: int) -> Tensor:
    """The fp32 number behind each head's codes, as the engine makes it of its one allocation."""
    assert side.rows.shape[-1] == dim + 4
    return side.rows.view(torch.float32)[..., dim // 4]


@store_target(
    "vllm-per-token-head",
    contract=Contract(
        scale=Computed("token_head", maximum=448.0, eps=1e-6, eps_on="scale", derive="divide_approx"),
        apply="multiply_approx_reciprocal",
        nan="undefined",
    ),
    cache=Form("pages", page=16, scales="inline"),
)
def vllm_per_token_head(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """Codes and scales are two views of the same rows."""
    k_scales, v_scales = scale_column(cache.k, cache.head_dim), scale_column(cache.v, cache.head_dim_v)
    triton_reshape_and_cache_flash_per_token_head_quant(
        k, v, cache.k.rows[..., : cache.head_dim], cache.v.rows[..., : cache.head_dim_v], k_scales, v_scales, slots
    )
