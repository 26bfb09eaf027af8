"""vLLM's Triton stores: one scale a tensor, one a token and head, and K and V of unlike head_dim in one tensor.

All three lie in vllm/v1/attention/ops/triton_reshape_and_cache_flash.py, which is loaded alone: what it imports of vLLM
is replaced by stubs with the few names it uses, so that neither a server nor a GPU is needed. Read in vLLM 0.33.0.
"""

from __future__ import annotations

import enum
import inspect
import os
from typing import TYPE_CHECKING

from kvcheck.api import Cache, store_target
from kvcheck.contract import Computed, Contract, Form, Given
from kvcheck.errors import Refused
from kvcheck.targets.engine import Engine, Stubs

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class _QuantMode(enum.IntEnum):
    """The modes of vLLM's KVQuantMode (vllm/v1/kv_cache_interface.py) that the file names."""

    NONE = 0
    INT8_PER_TOKEN_HEAD = 2
    FP8_PER_TOKEN_HEAD = 3
    INT4_PER_TOKEN_HEAD = 4


class _Platform:
    """What the file asks of vLLM's platform: NVIDIA's answers where there is a GPU.

    In Triton's interpreter it is said to be XPU, which merely tunes the launch for another device: that branch asks
    CUDA nothing.
    """

    def is_rocm(self) -> bool:
        """Never: kvcheck runs on NVIDIA GPUs and on the CPU."""
        return False

    def is_xpu(self) -> bool:
        """Where Triton interprets."""
        return os.environ.get("TRITON_INTERPRET") == "1"

    def fp8_dtype(self) -> torch.dtype:
        """The format of NVIDIA's GPUs."""
        import torch  # noqa: PLC0415 - an adapter's module imports without torch

        return torch.float8_e4m3fn

    def has_device_capability(self, capability: int) -> bool:
        """Whether the GPU is at least of this compute capability, 89 say; the interpreter is of any."""
        import torch  # noqa: PLC0415

        if self.is_xpu():
            return True
        major, minor = torch.cuda.get_device_capability()
        return major * 10 + minor >= capability


def _is_quantized(kv_cache_dtype: str) -> bool:
    return kv_cache_dtype.startswith("fp8")


def _stubs() -> Stubs:
    """What vLLM's modules hold for this file, in the versions seen."""
    import torch  # noqa: PLC0415
    import triton  # noqa: PLC0415
    import triton.language as tl  # noqa: PLC0415

    return {
        "vllm.platforms": {"current_platform": _Platform()},
        "vllm.triton_utils": {"triton": triton, "tl": tl},
        "vllm.model_executor.layers.quantization.utils.quant_utils": {
            "FP8_DTYPE": torch.float8_e4m3fn,
            "get_fp8_min_max": lambda: (-448.0, 448.0),
        },
        "vllm.v1.kv_cache_interface": {"KVQuantMode": _QuantMode, "is_quantized_kv_cache": _is_quantized},
        "vllm.utils.torch_utils": {"is_quantized_kv_cache": _is_quantized},
    }


VLLM = Engine(
    "vllm.v1.attention.ops.triton_reshape_and_cache_flash",
    distribution="vllm",
    get="pip install vllm, or --engine-path with a checkout of it",
    stubs=_stubs,
)

# `reshape_and_cache_kernel_flash`: `x / scale` with Triton's `/` in fp32 (a bf16 tile over an fp32 scalar), the store's
# cast saturates, a negative slot returns. The docstring gives K and V one head_size. Rows of dense heads, and a V
# cache that has the K cache's strides, are taken for granted without a word.
PER_TENSOR = Contract(scale=Given("tensor"), apply="divide_approx", negative_slots="skip")


@store_target(
    "vllm-per-tensor",
    contract=PER_TENSOR,
    cache=Form("pages", page=16, codes="float8_e4m3fn", scales="none"),
    refuses=(AssertionError,),
    prepare=VLLM.require,
)
def vllm_per_tensor(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """K's and V's pages in tensors of their own."""
    _per_tensor(k, v, slots, cache, cache.k.pages, cache.v.pages)


@store_target(
    "vllm-per-tensor-packed",
    contract=PER_TENSOR,
    cache=Form("packed", page=16, codes="float8_e4m3fn", scales="none"),
    refuses=(AssertionError,),
    prepare=VLLM.require,
)
def vllm_per_tensor_packed(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """K and V side by side in `[blocks, heads, block, 2 * head_size]`, as vLLM's triton_attn.py splits it."""
    pages = cache.fused.transpose(1, 2)
    _per_tensor(k, v, slots, cache, pages[..., : cache.head_dim], pages[..., cache.head_dim :])


def _per_tensor(k: Tensor, v: Tensor, slots: Tensor, cache: Cache, k_pages: Tensor, v_pages: Tensor) -> None:
    if cache.head_dim != cache.head_dim_v:
        raise Refused("triton_reshape_and_cache_flash documents K and V of one head_size")
    with VLLM.use() as engine:
        engine.triton_reshape_and_cache_flash(k, v, k_pages, v_pages, slots, "fp8", cache.k.scale, cache.v.scale)


# `reshape_and_cache_kernel_flash_diffkv`: the same arithmetic, one fused tensor whose strides it takes.
@store_target(
    "vllm-diffkv",
    contract=PER_TENSOR,
    cache=Form("packed", page=16, codes="float8_e4m3fn", scales="none"),
    refuses=(AssertionError,),
    prepare=VLLM.require,
)
def vllm_diffkv(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """K and V of one head side by side; their head_dims may differ."""
    with VLLM.use() as engine:
        engine.triton_reshape_and_cache_flash_diffkv(
            k, v, cache.fused.transpose(1, 2), slots, "fp8", cache.k.scale, cache.v.scale
        )


# `_reshape_cache_per_token_head`: the scale is `maximum(amax / 448, 1e-6)`, codes `clamp(x * (1 / scale))`, all with
# Triton's `/` and `*`; what becomes of NaN is left open by the clamp. Every stride is passed but the innermost of K and
# V, which is taken to be 1 without a word.
PER_TOKEN_HEAD = Contract(
    scale=Computed("token_head", maximum=448.0, eps=1e-6, eps_on="scale", derive="divide_approx"),
    apply="multiply_approx_reciprocal",
    nan="undefined",
    negative_slots="skip",
)


@store_target(
    "vllm-per-token-head",
    contract=PER_TOKEN_HEAD,
    cache=Form("pages", page=16, codes="float8_e4m3fn"),
    refuses=(ValueError,),
    prepare=VLLM.require,
)
def vllm_per_token_head(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """Scales in tensors of their own."""
    _per_token_head(k, v, slots, cache, _QuantMode.FP8_PER_TOKEN_HEAD)


@store_target(
    "vllm-per-token-head-inline",
    contract=PER_TOKEN_HEAD,
    cache=Form("pages", page=16, codes="float8_e4m3fn", scales="inline"),
    refuses=(ValueError,),
    prepare=VLLM.require,
)
def vllm_per_token_head_inline(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """Each scale behind its head's codes, four bytes as one fp32 number."""
    _per_token_head(k, v, slots, cache, _QuantMode.FP8_PER_TOKEN_HEAD)


# `IS_INT_QUANT`: half away from zero, clamped to -128 … 127; the scale is `maximum(amax / 127, 1e-6)`.
@store_target(
    "vllm-per-token-head-int8",
    contract=Contract(
        format="int8",
        scale=Computed("token_head", maximum=127.0, eps=1e-6, eps_on="scale", derive="divide_approx"),
        apply="multiply_approx_reciprocal",
        rounding="half_away",
        minimum=-128.0,
        nan="undefined",
        negative_slots="skip",
    ),
    cache=Form("pages", page=16, codes="int8"),
    refuses=(ValueError,),
    prepare=VLLM.require,
)
def vllm_per_token_head_int8(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
    """The same kernel over int8 pages."""
    _per_token_head(k, v, slots, cache, _QuantMode.INT8_PER_TOKEN_HEAD)


def _per_token_head(k: Tensor, v: Tensor, slots: Tensor, cache: Cache, mode: _QuantMode) -> None:
    with VLLM.use() as engine:
        store = engine.triton_reshape_and_cache_flash_per_token_head_quant
        extra = (mode,) if "kv_quant_mode" in inspect.signature(store).parameters else ()  # older versions have none
        store(k, v, cache.k.pages, cache.v.pages, cache.k.scale_pages, cache.v.scale_pages, slots, *extra)
