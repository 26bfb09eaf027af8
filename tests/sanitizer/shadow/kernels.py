"""Small kernels, each line of which that does something wrong says so in its comment.

They stand for stores in that they are handed K, V, slots, codes and scales; what they compute does not matter.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ARG001, D103, N803, PLR0913, PLR0917 - a Triton kernel's parameters are the compiler's

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def first_row(source):
    """The first elements of a tensor."""
    return tl.load(source + tl.arange(0, 16)).to(tl.float32)  # helper


@triton.jit
def right(k, v, slots, k_codes, v_codes, k_scales, v_scales, codes_slot, SIZE: tl.constexpr):
    token = tl.program_id(0)
    slot = tl.load(slots + token)
    lane = tl.arange(0, SIZE)
    both = first_row(k) + first_row(v)
    tl.store(k_codes + slot * codes_slot + lane, both.to(tl.uint8))
    again = tl.load(k_codes + slot * codes_slot + lane)
    masked = tl.load(k + (lane << 40), mask=lane < 0, other=0.0).to(tl.float32)
    tl.store(v_codes + slot * codes_slot + lane, (again + masked).to(tl.uint8))
    tl.store(k_scales + slot, 1.0)
    tl.atomic_max(k_scales + slot, 2.0)


@triton.jit
def reads(k, v, slots, k_codes, v_codes, k_scales, v_scales, codes_slot, SIZE: tl.constexpr):
    lane = tl.arange(0, SIZE)
    old = tl.load(k_codes + lane)  # uninitialised
    first_row(v_codes)  # called: uninitialised
    past = tl.load(slots + SIZE * 64 + lane)  # out-of-bounds
    before = tl.load(v - 1 - lane)  # before
    tl.store(k_codes + tl.load(slots) * codes_slot + lane, (old + past + before.to(tl.float32)).to(tl.uint8))


@triton.jit
def writes(k, v, slots, k_codes, v_codes, k_scales, v_scales, codes_slot, SIZE: tl.constexpr):
    lane = tl.arange(0, SIZE)
    code = lane.to(tl.uint8)
    tl.store(k_codes + 5 * codes_slot + lane, code)  # other slot
    tl.store(k + lane, code.to(tl.float32))  # input
    tl.atomic_add(k_scales + tl.load(slots) + lane, 1.0, mask=lane < 1)  # atomic


@triton.jit
def mixed(k, v, slots, k_codes, v_codes, k_scales, v_scales, codes_slot, SIZE: tl.constexpr):
    lane = tl.arange(0, SIZE)
    where = tl.where(lane < 8, k + lane, v + (1 << 35) + lane)
    value = tl.load(where)  # mixed
    tl.store(k_codes + tl.load(slots) * codes_slot + lane, value.to(tl.uint8))


@triton.jit
def by_integer(address, away, slots, k_codes, codes_slot, SIZE: tl.constexpr):
    lane = tl.arange(0, SIZE)
    pointer = address.to(tl.pointer_type(tl.bfloat16))
    value = tl.load(pointer + away + lane).to(tl.float32)  # integer
    tl.store(k_codes + tl.load(slots) * codes_slot + lane, value.to(tl.uint8))


@triton.jit
def scratch(own, slots, k_codes, codes_slot, start, SIZE: tl.constexpr):
    lane = tl.arange(0, SIZE)
    tl.store(own + lane, lane.to(tl.float32))
    value = tl.load(own + start + lane)  # scratch
    tl.store(k_codes + tl.load(slots) * codes_slot + lane, value.to(tl.uint8))


@triton.jit
def loads(codes, scales, out, codes_slot, out_token, slot, other, token, SIZE: tl.constexpr):
    lane = tl.arange(0, SIZE)
    code = tl.load(codes + slot * codes_slot + lane).to(tl.float32) * tl.load(scales + slot)
    code += tl.load(codes + other * codes_slot + lane).to(tl.float32)  # another row
    tl.store(out + token * out_token + lane, code)  # a token


@triton.jit
def place_of(source, lane):
    """The address of a lane, far off."""
    return source - (lane + 1)[:, None]  # made


@triton.jit
def elsewhere(k, slots, k_codes, codes_slot, SIZE: tl.constexpr):
    lane = tl.arange(0, SIZE)
    place = place_of(k, lane)
    value = tl.load(place, mask=(lane < SIZE)[None, :] & (lane < 4)[:, None], other=0.0)  # far from it
    tl.store(k_codes + tl.load(slots) * codes_slot + lane, tl.max(value, axis=0).to(tl.uint8))


@triton.jit
def askew(scales, slots, k_codes, codes_slot, SIZE: tl.constexpr):
    lane = tl.arange(0, SIZE)
    tl.store(k_codes + tl.load(slots) * codes_slot + lane, lane.to(tl.uint8))
    words = (k_codes + tl.load(slots) * codes_slot + 1).to(tl.pointer_type(tl.int32))
    tl.store(words + lane, lane, mask=lane < 2)  # misaligned
