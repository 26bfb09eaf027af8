# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Targets to compile: right kernels, and ways in which compiling can go wrong. Loaded as a file, never imported."""

from __future__ import annotations

import os

import torch
import triton
import triton.language as tl

from kvcheck import Accepts, Cache, Contract, Form, Refused, store_target

CONTRACT = Contract(scale=None)


@triton.jit
def halve(source, codes, SIZE: tl.constexpr):  # noqa: ANN001, ANN201, N803, D103
    at = tl.arange(0, SIZE)
    tl.store(codes + at, (tl.load(source + at) / 3.0).to(tl.uint8))


@triton.jit
def native(source, codes, SIZE: tl.constexpr):  # noqa: ANN001, ANN201, N803, D103
    at = tl.arange(0, SIZE)
    tl.store(codes + at, tl.load(source + at).to(tl.float32).to(tl.float8e4nv).to(tl.uint8, bitcast=True))


def never(*_: object, **__: object) -> list[float]:
    """A benchmark, which nothing that is not launched may call."""
    raise AssertionError("a kernel was timed")


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (1, 4)], key=[], do_bench=never)
@triton.jit
def tuned(source, codes, SIZE: tl.constexpr):  # noqa: ANN001, ANN201, N803, D103
    at = tl.arange(0, SIZE)
    tl.store(codes + at, tl.load(source + at).to(tl.uint8))


@store_target("two", contract=CONTRACT, cache=Form("slots", scales="none"))
def two(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:  # noqa: ARG001
    """Two kernels; the first casts natively."""
    native[(1,)](k, cache.k.codes, SIZE=16)
    halve[(1,)](v, cache.v.codes, SIZE=16)


@store_target("tuned", contract=CONTRACT, cache=Form("slots", scales="none"))
def autotuned(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:  # noqa: ARG001
    """A kernel with two configurations."""
    tuned[(1,)](k, cache.k.codes, SIZE=16)


@store_target("torch-only", contract=CONTRACT, cache=Form("slots", scales="none"))
def torch_only(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:  # noqa: ARG001
    """No kernel of Triton's."""
    cache.k.codes.zero_()


@store_target("wants-cuda", contract=CONTRACT, cache=Form("slots", scales="none"))
def wants_cuda(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:  # noqa: ARG001
    """Looks where its tensors lie."""
    if not k.is_cuda:
        raise Refused("k must lie on a GPU")


@store_target("bf16-only", contract=CONTRACT, accepts=Accepts(dtypes=("bf16",)), cache=Form("slots", scales="none"))
def bf16_only(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:  # noqa: ARG001
    """Is never called with what it does not take."""
    assert k.dtype == torch.bfloat16
    halve[(1,)](k, cache.k.codes, SIZE=16)


@store_target("miscalled", contract=CONTRACT, cache=Form("slots", scales="none"))
def miscalled(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:  # noqa: ARG001
    """Leaves out an argument: no compiler is ever asked."""
    halve[(1,)](k, SIZE=16)


@store_target("dies", contract=CONTRACT, cache=Form("slots", scales="none"))
def dies(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:  # noqa: ARG001
    """Takes its process along."""
    os.write(2, b"LLVM ERROR: out of ideas\n")
    os.abort()
