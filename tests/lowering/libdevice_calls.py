# mypy: disable-error-code="no-untyped-def"
# ruff: noqa: ANN001, ANN201, ARG001, N803
"""Kernels that name libdevice's functions in every way in which kernels do, or what is not modelled."""

from __future__ import annotations

import triton.language as tl
from triton.language.extra import libdevice as by_name_only
from triton.language.extra.cuda import libdevice
from triton.language.extra.cuda.libdevice import round as half_away


def by_attribute(values, results, SIZE: tl.constexpr):
    """By its place below the language."""
    at = tl.arange(0, SIZE)
    tl.store(results + at, tl.extra.cuda.libdevice.rint(tl.load(values + at)))


def by_module(values, results, SIZE: tl.constexpr):
    """By its module."""
    at = tl.arange(0, SIZE)
    tl.store(results + at, libdevice.rint(tl.load(values + at)))


def by_generic(values, results, SIZE: tl.constexpr):
    """By the module of names."""
    at = tl.arange(0, SIZE)
    tl.store(results + at, by_name_only.rint(tl.load(values + at)))


def waiting(values, results, SIZE: tl.constexpr):
    """Behind another launch."""
    tl.extra.cuda.gdc_wait()
    at = tl.arange(0, SIZE)
    tl.store(results + at, tl.load(values + at))


def by_name(values, results, SIZE: tl.constexpr):
    """By itself."""
    at = tl.arange(0, SIZE)
    tl.store(results + at, half_away(tl.load(values + at)))


def divided(values, results, SIZE: tl.constexpr):
    """With a number."""
    at = tl.arange(0, SIZE)
    tl.store(results + at, libdevice.div_rn(tl.load(values + at), 3.0))


def scalar(values, results, SIZE: tl.constexpr):
    """Of one number."""
    tl.store(results, libdevice.float2int_rn(tl.load(values + 1)).to(tl.float32))


def fast(values, results, SIZE: tl.constexpr):
    """An approximation."""
    at = tl.arange(0, SIZE)
    tl.store(results + at, libdevice.fast_dividef(tl.load(values + at), 3.0))


def nameless(values, results, SIZE: tl.constexpr):
    """Another one, by the module of names."""
    at = tl.arange(0, SIZE)
    tl.store(results + at, by_name_only.exp2(tl.load(values + at)))


def assembly(values, results, SIZE: tl.constexpr):
    """In assembly."""
    at = tl.arange(0, SIZE)
    x = tl.inline_asm_elementwise(
        "cvt.rni.f32.f32 $0, $1;", "=f,f", [tl.load(values + at)], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(results + at, x)


def processor(values, results, SIZE: tl.constexpr):
    """What a CPU has not."""
    tl.store(results, tl.extra.cuda.smid().to(tl.float32))


def doubled(values, results, SIZE: tl.constexpr):
    """Of a type that libdevice does not have."""
    tl.store(results, libdevice.rint(tl.load(values).to(tl.bfloat16)).to(tl.float32))
