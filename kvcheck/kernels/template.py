"""What `kvcheck targets --new` writes. Try it: kvcheck matrix seed --target FILE. Then put your kernel in its place."""

import torch
import triton
import triton.language as tl

from kvcheck import Accepts, Cache, Computed, Contract, Form, store_target
from kvcheck.kernels.encode import encode_e4m3fn


@triton.jit  # Stands in for your engine's kernel: import that instead, and delete this.
def kernel(x, codes, scales, slots, xt, xh, cs, ch, ss, sh, step, DIM: tl.constexpr, BLOCK: tl.constexpr):
    token, head, dim = tl.program_id(0), tl.program_id(1), tl.arange(0, BLOCK)
    slot = tl.load(slots + token * step).to(tl.int64)
    row = tl.load(x + token * xt + head * xh + dim, mask=dim < DIM, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(row), axis=0), 1e-10) / 448.0
    tl.store(scales + slot * ss + head * sh, scale)
    tl.store(codes + slot * cs + head * ch + dim, encode_e4m3fn(row / scale).to(tl.uint8), mask=dim < DIM)


@store_target(
    "my-kernel",  # contract: what it promises (`/` is approximate in Triton). accepts: what it documents to need.
    contract=Contract(Computed(eps=1e-10, derive="divide_approx"), apply="divide_approx", negative_slots="undefined"),
    accepts=Accepts(inner=1),  # What it merely assumes does not belong here: run it and see.
    cache=Form("slots"),  # docs/adapters.md has the other forms, and what else a contract can say.
)
def my_kernel(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    for x, side in ((k, cache.k), (v, cache.v)):  # [rows, heads, dim], strides of their own; hand them on, never copy
        sizes = (*x.stride()[:2], *side.codes.stride()[:2], *side.scales.stride(), slots.stride(0), x.shape[2])
        kernel[(len(slots), cache.heads)](x, side.codes, side.scales, slots, *sizes, triton.next_power_of_2(x.shape[2]))
