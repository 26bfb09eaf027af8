"""Engines' code with one fault each: torch alone, as fallbacks are written."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# ruff: noqa: ANN001, ANN201, ARG001, D103, INP001
# A kernel's parameters are the compiler's, `BUG` is a constant that leaves one branch, and names say what each does.

from __future__ import annotations

import torch

from kvcheck import Cache, Computed, Contract, store_target

DYNAMIC = Contract(Computed(eps=1e-10), nan="undefined", duplicate_slots="undefined")
TENSOR = Contract(Computed("tensor", eps=1e-10), nan="undefined", duplicate_slots="undefined")
LARGEST = torch.tensor(448.0)


def amax_of(x, dims):
    return torch.nan_to_num(x.abs(), nan=0.0, posinf=float("inf")).amax(dims, keepdim=True)


def scale_of(amax):
    return torch.maximum(amax, torch.tensor(1e-10)) / LARGEST


def encode(q):
    return q.clamp(-448.0, 448.0).to(torch.float8_e4m3fn).view(torch.uint8)


def put(side, slots, code, scale):
    keep = (slots >= 0).nonzero().flatten()
    at = slots[keep].long()
    side.codes[at] = code[keep]
    side.scales[at] = scale[keep]


def make(name, quantise, contract=DYNAMIC):
    @store_target(name, contract=contract)
    def run(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        if len(slots) == 0:
            return
        for x, other, side in ((k, v, cache.k), (v, k, cache.v)):
            code, scale = quantise(x[: len(slots)].float(), other[: len(slots)].float(), x)
            put(side, slots, code, scale.expand(len(slots), *side.scales.shape[1:]))

    return run


def plain(x, other, raw):
    scale = scale_of(amax_of(x, 2))
    return encode(x / scale), scale[..., 0]


def wrong_axis(x, other, raw):
    t, h, d = x.shape
    scale = scale_of(amax_of(x.reshape(t, d, h), 1)).reshape(t, h, 1)
    return encode(x / scale), scale[..., 0]


def over_heads_and_tokens(x, other, raw):
    scale = scale_of(amax_of(x, 0).amax(2, keepdim=True)).expand(len(x), -1, 1)
    return encode(x / scale), scale[..., 0]


def scale_used_in_bf16(x, other, raw):
    scale = scale_of(amax_of(x, 2))
    return encode(x / scale.bfloat16().float()), scale[..., 0]


def heads_first(x, other, raw):
    x = x.transpose(0, 1).reshape(x.shape)
    return plain(x, other, raw)


def shared_scale(x, other, raw):
    scale = scale_of(torch.maximum(amax_of(x, 2), amax_of(other, 2)))
    return encode(x / scale), scale[..., 0]


GRID = torch.arange(0, 127, dtype=torch.uint8).view(torch.float8_e4m3fn).float()


def next_on_grid(x, other, raw):
    scale = scale_of(amax_of(x, 2))
    q = x / scale
    code = torch.bucketize(q.abs().contiguous(), GRID).clamp(max=126).to(torch.uint8)
    return code | (torch.signbit(q).to(torch.uint8) << 7), scale[..., 0]


def reversed_and_cut(x, other, raw):
    x = x.flip(1)
    scale = scale_of(amax_of(x, 2))
    q = (x / scale).clamp(-448, 448)
    code = (torch.bucketize(q.abs().contiguous(), GRID, right=True) - 1).clamp(0, 126).to(torch.uint8)
    return code | (torch.signbit(q).to(torch.uint8) << 7), scale[..., 0]


def in_half(x, other, raw):
    x = x.half().float()
    return plain(x, other, raw)


def dims_reversed_pairs(x, other, raw):
    t, h, d = x.shape
    x = x.reshape(t, h, 2, d // 2).transpose(2, 3).reshape(t, h, d)
    return plain(x, other, raw)


def whole_tensor(x, other, raw):
    scale = scale_of(amax_of(x, (0, 1, 2)))
    return encode(x / scale), scale[0, 0]


def whole_batch(x, other, raw):
    scale = scale_of(amax_of(raw.float(), (0, 1, 2)))
    return encode(x / scale), scale[0, 0]


def min_max(x, other, raw):
    y = torch.nan_to_num(x, nan=0.0, posinf=float("inf"), neginf=float("-inf"))
    scale = scale_of((y.amax(2, keepdim=True) - y.amin(2, keepdim=True)) / 2)
    return encode(x / scale), scale[..., 0]


sound = make("eager-sound", plain)
axis = make("eager-amax-wrong-axis", wrong_axis)
head = make("eager-amax-of-all-tokens", over_heads_and_tokens)
used = make("eager-scale-used-in-bf16", scale_used_in_bf16)
first = make("eager-heads-first", heads_first)
shared = make("eager-shared-amax", shared_scale)
up = make("eager-next-on-grid", next_on_grid)
two = make("eager-heads-reversed-and-cut", reversed_and_cut)
half = make("eager-through-half", in_half)
rope = make("eager-neox-to-gptj", dims_reversed_pairs)
range_ = make("eager-half-the-range", min_max)


def make_tensor(name, quantise):
    @store_target(name, contract=TENSOR)
    def run(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        if len(slots) == 0:
            return
        for x, side in ((k, cache.k), (v, cache.v)):
            code, scale = quantise(x[: len(slots)].float(), None, x)
            keep = (slots >= 0).nonzero().flatten()
            side.codes[slots[keep].long()] = code[keep]
            side.scales.fill_(float(scale))

    return run


def bare(x, other, raw):
    scale = amax_of(x, 2) / LARGEST
    return encode(torch.nan_to_num(x / scale, nan=0.0)), scale[..., 0]


@store_target("eager-negative-clamped", contract=DYNAMIC)
def clamped(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """A padded batch's -1 becomes slot 0."""
    at = slots.clamp(min=0).long()
    for x, side in ((k, cache.k), (v, cache.v)):
        code, scale = plain(x[: len(slots)].float(), None, None)
        side.codes[at] = code
        side.scales[at] = scale


no_eps = make("eager-no-eps", bare)
