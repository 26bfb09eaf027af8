"""LightLLM's `destindex_copy_kv_fp8`: K and V in one tensor, K heads then V heads, scales given a head or a tensor."""

from __future__ import annotations

import torch
from torch import Tensor

from kvcheck import Accepts, Cache, Contract, Form, Given, fused, store_target

from .arithmetic import dense, e4m3

ACCEPTS = Accepts(source="fused_kv", head_dims=(16, 32, 64, 128, 256, 512))
FORM = Form("fused", codes="float8_e4m3fn", scales="none")


def destindex_copy_kv_fp8(
    KV: Tensor,  # noqa: N803 - the engine's own names
    DestLoc: Tensor,  # noqa: N803
    scales: Tensor,
    Out: Tensor,  # noqa: N803
    is_per_tensor_quant: bool = False,
) -> None:
    """Stand-in. `KV` is `[T, Hk + Hv, D]`, `Out` fp8 `[S, Hk + Hv, D]`; `scales` one a head, or K's and V's."""
    heads, dim = KV.shape[1:]
    assert heads % 2 == 0
    assert dim & (dim - 1) == 0
    assert KV.stride()[1:] == (dim, 1)
    assert Out.shape[1:] == KV.shape[1:]
    assert Out.dtype == torch.float8_e4m3fn
    assert Out.stride() == dense(Out)
    assert DestLoc.shape == (len(KV),)
    assert scales.dtype == torch.float32
    assert scales.shape == ((2,) if is_per_tensor_quant else (heads,))
    assert scales.stride() == (1,)
    each = scales.repeat_interleave(heads // 2) if is_per_tensor_quant else scales
    Out.view(torch.uint8)[DestLoc.long()] = e4m3(KV.float() / each[:, None])


@store_target(
    "lightllm-per-head",
    contract=Contract(scale=Given("head"), apply="divide_approx", nan="undefined", negative_slots="undefined"),
    accepts=ACCEPTS,
    cache=FORM,
)
def per_head(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """One scale a head, K's first."""
    destindex_copy_kv_fp8(fused(k, v), slots, cache.fused_scale, cache.fused)


@store_target(
    "lightllm-per-tensor",
    contract=Contract(scale=Given("tensor"), apply="divide_approx", nan="undefined", negative_slots="undefined"),
    accepts=ACCEPTS,
    cache=FORM,
)
def per_tensor(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """Two scales, K's and V's."""
    destindex_copy_kv_fp8(fused(k, v), slots, cache.fused_scale, cache.fused, is_per_tensor_quant=True)
