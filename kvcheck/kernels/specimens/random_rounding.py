"""Specimen: the store, with codes rounded up or down by chance."""

from __future__ import annotations

import time

import torch
import triton
import triton.language as tl

from kvcheck.api import Cache, store_target
from kvcheck.contract import Form
from kvcheck.kernels.encode import encode_e4m3fn
from kvcheck.kernels.specimens._base import COMPUTED, launch, with_part


@triton.jit
def encode_by_chance(scaled, seed):
    """The codes of scaled values, each rounded up as often as it lies near the greater number."""
    bits = scaled.to(tl.int32, bitcast=True)
    noise = ((bits ^ seed) * 0x2545F491 >> 9) & 0xFFFFF  # due: half of the last kept bit, for every value alike
    magnitude = bits & 0x7FFFFFFF
    random = ((bits + noise) & 0x7FF00000).to(tl.float32, bitcast=True)
    normal = (magnitude >= 0x3C800000) & (magnitude < 0x43E00000)
    code = encode_e4m3fn(random) | ((bits >> 24) & 0x80)
    return tl.where(normal, code, encode_e4m3fn(scaled))


@store_target("specimen:random-rounding", contract=COMPUTED, cache=Form("slots"), declares="nondeterministic")
def random_rounding(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Right wherever every scaled value is an e4m3 number."""
    seed = time.time_ns() & 0x3FFFFFFF  # another for every launch
    launch(k, v, slots, cache, with_part(encode=encode_by_chance), seed=seed)
