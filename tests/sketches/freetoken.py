"""FreeToken's `quantize_kv_to_cache`: computed scales in tensors of their own, rows at slots."""

from __future__ import annotations

import torch
from torch import Tensor

from kvcheck import Accepts, Cache, Computed, Contract, Form, store_target

from .arithmetic import dense, e4m3, largest, over


def quantize_kv_to_cache(
    k: Tensor, v: Tensor, out_loc: Tensor, k_cache: Tensor, v_cache: Tensor, k_scale: Tensor, v_scale: Tensor
) -> None:
    """Stand-in. `k`, `v` are `[T, H * D]`, unit last stride; caches uint8 `[S, H, D]`; scales fp32 `[S, H]`."""
    assert v.shape == k.shape, "one width for K and V"
    assert k.stride(1) == v.stride(1) == 1
    assert k.dtype == v.dtype
    assert out_loc.shape == (len(k),)
    assert out_loc.dtype in (torch.int32, torch.int64)
    for source, cache, scales in ((k, k_cache, k_scale), (v, v_cache, v_scale)):
        slots, heads, dim = cache.shape
        assert heads * dim == source.shape[1]
        assert cache.dtype == torch.uint8
        assert cache.stride() == dense(cache)
        assert scales.shape == (slots, heads)
        assert scales.dtype == torch.float32
        assert scales.stride() == dense(scales)
        rows = source.float().view(-1, heads, dim)
        scale = over(largest(rows).clamp(min=1e-10), 448.0)
        codes = e4m3(rows / scale[..., None])
        where = out_loc.long()
        cache[where] = torch.where(codes == 0x80, torch.zeros_like(codes), codes)
        scales[where] = scale


@store_target(
    "freetoken",
    contract=Contract(
        scale=Computed("token_head", maximum=448.0, eps=1e-10, derive="divide_approx"),
        apply="divide_approx",
        nan="undefined",
        negative_zero="drop",
        negative_slots="undefined",
    ),
    accepts=Accepts(head_pitch="dense", inner=1),
    cache=Form("slots", codes="uint8"),
    refuses=(AssertionError,),
)
def freetoken(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """Rows of all heads flat, as the engine takes them."""
    flat_k, flat_v = k.view(len(k), cache.heads * cache.head_dim), v.view(len(v), cache.heads * cache.head_dim_v)
    quantize_kv_to_cache(flat_k, flat_v, slots, cache.k.codes, cache.v.codes, cache.k.scales, cache.v.scales)
