"""The scales that a contract asks for, in IEEE fp32 arithmetic. Rows are `[tokens, heads, dim]`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.contract import Computed, Contract, Derive
from kvcheck.formats.cast import power_of_two_above, round_to

Floats: TypeAlias = npt.NDArray[np.float32]
Flags: TypeAlias = npt.NDArray[np.bool_]


def right_scales(rule: Computed, x: Floats) -> Floats:
    """The scales of `x` `[T, H, D]`, one for each population of the rule's granularity.

    `[T, H]` for token_head, `[T]` token, `[H]` head, `[]` tensor, `[T, H, D/N rounded up]` block:N. The order is
    amax, `eps` on it, `derive`, `eps` on the scale, `zero_row`, `dtype`. Held in fp32 whatever the dtype. An infinite
    amax gives an infinite scale; a NaN is ignored (a population of NaN alone has amax 0) or propagates, as the rule
    says.
    """
    amax = largest_magnitudes(rule, x)
    with np.errstate(all="ignore"):
        return finished(rule, amax, derived(rule.derive, bounded(rule, amax), np.float32(rule.maximum)))


def largest_magnitudes(rule: Computed, x: Floats) -> Floats:
    """The amax of every population of `x` `[T, H, D]`, shaped as the scales. An empty population has amax 0."""
    magnitudes = np.abs(x)
    if rule.nan == "ignore":
        magnitudes = np.where(np.isnan(magnitudes), np.float32(0), magnitudes)
    if rule.granularity.startswith("block:"):
        return _block_maxima(magnitudes, block_size(rule.granularity))
    axes = {"token_head": (2,), "token": (1, 2), "head": (0, 2), "tensor": (0, 1, 2)}[rule.granularity]
    return np.asarray(np.max(magnitudes, axis=axes, initial=np.float32(0)), dtype=np.float32)


def block_size(granularity: str) -> int:
    """N of `block:N`."""
    return int(granularity.removeprefix("block:"))


def _block_maxima(magnitudes: Floats, size: int) -> Floats:
    """The maximum of every `size` elements of a row; the last block of a row may be shorter."""
    tokens, heads, dim = magnitudes.shape
    blocks = -(-dim // size)
    padded = np.zeros((tokens, heads, blocks * size), dtype=np.float32)
    padded[:, :, :dim] = magnitudes
    return np.asarray(np.max(padded.reshape(tokens, heads, blocks, size), axis=3), dtype=np.float32)


def bounded(rule: Computed, amax: Floats) -> Floats:
    """The amax with `eps` applied, where the rule says that it is the amax's. NaN stays NaN."""
    return with_eps(rule, amax) if rule.eps_on == "amax" else amax


def with_eps(rule: Computed, values: Floats) -> Floats:
    """fp32 numbers with `eps` as their least value, or added to each in fp32, as the rule says. NaN stays NaN."""
    eps = np.float32(rule.eps)
    return np.asarray(values + eps if rule.eps_as == "added" else np.maximum(values, eps), dtype=np.float32)


def derived(derive: Derive, amax: Floats, maximum: np.float32) -> Floats:
    """The quotient of amax and maximum as `derive` computes it; the approximate forms as their exact counterparts."""
    if derive in ("multiply_reciprocal", "multiply_approx_reciprocal"):
        return np.asarray(amax * (np.float32(1) / maximum), dtype=np.float32)
    quotient = np.asarray(amax / maximum, dtype=np.float32)
    return power_of_two_above(quotient) if derive == "power_of_two" else quotient


def finished(rule: Computed, amax: Floats, scales: Floats) -> Floats:
    """Derived scales with `eps` on them, `zero_row` and the rounding to `dtype`, in that order."""
    if rule.eps_on == "scale":
        scales = with_eps(rule, scales)
    if rule.zero_row is not None:
        scales = np.where(amax == 0, np.float32(rule.zero_row), scales)
    return np.asarray(round_to(np.asarray(scales, dtype=np.float32), rule.dtype), dtype=np.float32)


def element_scales(contract: Contract, scales: Floats, shape: tuple[int, ...]) -> Floats:
    """A read-only view of `scales` as the scale of every element of `shape` `[T, H, D]`.

    `scales` are shaped as `right_scales` shapes them, or `[]` or `[1]` for one given scale, `[H]` for one a head.
    Raises ValueError where they do not fit, or the contract has no scale.
    """
    tokens, heads, dim = shape
    if contract.scale is None:
        raise ValueError("the contract has no scale")
    granularity = contract.scale.granularity
    if granularity.startswith("block:"):
        size = block_size(granularity)
        scales = np.repeat(scales.reshape(tokens, heads, -(-dim // size)), size, axis=2)[:, :, :dim]
    else:
        layouts = {
            "token_head": (tokens, heads, 1),
            "token": (tokens, 1, 1),
            "head": (1, heads, 1),
            "tensor": (1, 1, 1),
        }
        scales = scales.reshape(layouts[granularity])
    return np.broadcast_to(scales, shape)
