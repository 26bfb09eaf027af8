"""The smallest kernels that convert floats, as plain functions: compiled for their PTX, or run by the interpreter."""

from __future__ import annotations

import triton.language as tl


def cast(values, codes, SIZE: tl.constexpr):
    """Cast `SIZE` values a program to e4m3fn."""
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    tl.store(codes + at, tl.load(values + at).to(tl.float8e4nv).to(tl.uint8, bitcast=True))


def store_cast(values, codes, SIZE: tl.constexpr):
    """Store `SIZE` values to e4m3fn without a word: the store itself casts. `codes` points to e4m3fn."""
    at = tl.arange(0, SIZE)
    tl.store(codes + at, tl.load(values + at))


def narrow(values, results, SIZE: tl.constexpr):
    """Cast `SIZE` fp32 values to bf16, stored as their bits."""
    at = tl.arange(0, SIZE)
    tl.store(results + at, tl.load(values + at).to(tl.bfloat16).to(tl.int16, bitcast=True))


def compute_bf16(values, results, SIZE: tl.constexpr):
    """Products, comparisons and conversions of `SIZE` values, held as bf16, each to its own part of the results.

    The parts, `SIZE` fp32 numbers each: x · x, whether -1 < x < 100, x as an integer, that integer as bf16.
    """
    at = tl.arange(0, SIZE)
    value = tl.load(values + at).to(tl.bfloat16)
    whole = value.to(tl.int32)
    tl.store(results + at, (value * value).to(tl.float32))
    inside = (value > tl.full([SIZE], -1.0, tl.bfloat16)) & (value < tl.full([SIZE], 100.0, tl.bfloat16))
    tl.store(results + SIZE + at, inside.to(tl.float32))
    tl.store(results + 2 * SIZE + at, whole.to(tl.float32))
    tl.store(results + 3 * SIZE + at, whole.to(tl.bfloat16).to(tl.float32))


def count(values, results, SIZE: tl.constexpr):
    """Store ones, as many as the first of `SIZE` int32 values says: a loaded scalar as a condition and as a bound."""
    first = tl.load(values)
    if first > 0:
        for at in range(first):
            tl.store(results + at, 1, mask=at < SIZE)


def decode(codes, values, SIZE: tl.constexpr):
    """Widen `SIZE` e4m3fn codes to fp32."""
    at = tl.arange(0, SIZE)
    tl.store(values + at, tl.load(codes + at).to(tl.float8e4nv, bitcast=True).to(tl.float32))


def divide(tops, bottoms, quotients, SIZE: tl.constexpr):
    """Divide `SIZE` values a program as `/` does."""
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(quotients + at, tl.load(tops + at) / tl.load(bottoms + at))


def divide_by_maximum(values, quotients, SIZE: tl.constexpr):
    """Divide `SIZE` values a program by the constant 448 as `/` does."""
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(quotients + at, tl.load(values + at) / 448.0)


def clamp(values, results, SIZE: tl.constexpr):
    """Clamp `SIZE` values to ±448."""
    at = tl.arange(0, SIZE)
    tl.store(results + at, tl.clamp(tl.load(values + at), -448.0, 448.0))
