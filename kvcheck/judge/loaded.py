"""What a load target should have written for K or V, and what of it stands there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvcheck.addresses import byte_offsets, element_offsets
from kvcheck.contract import LoadContract
from kvcheck.draw import dtypes
from kvcheck.draw.image import loaded_rows, prefill_rows
from kvcheck.draw.inputs import Inputs
from kvcheck.emission import PREFILLS
from kvcheck.formats.decode import decode
from kvcheck.judge.subject import Bytes, Floats, Indices, Mask
from kvcheck.schema import ITEMSIZE, Emission, Placed, Tensor


@dataclass(frozen=True)
class LoadedSide:
    """K or V of every token: fp32 value of its codes, its scale, and the right bits, all `[tokens, heads, dim]`.

    `compared` leaves out NaNs where the contract says that they are undefined.
    """

    tensor: Tensor
    placed: Placed
    value: Floats
    scale: Floats
    bits: Indices
    nan: Mask
    compared: Mask

    @property
    def right(self) -> Bytes:
        """The right bytes, `[tokens, heads, dim, item]`."""
        item = ITEMSIZE[self.placed.dtype]
        return np.ascontiguousarray(self.bits.astype("<u4" if item == 4 else "<u2"))[..., None].view(np.uint8)


def loaded_side(tensor: Tensor, emission: Emission, contract: LoadContract, inputs: Inputs) -> LoadedSide:
    """The right elements of K or V: no slot is negative, so that every token has them."""
    rows = loaded_rows(emission.placement, emission.case, contract, inputs)
    value = decode(rows[f"{tensor}_codes"].astype(np.uint8), contract.format)
    given = inputs.k_scale if tensor == "k" else inputs.v_scale
    if contract.scale == "token_head":
        scale = rows[f"{tensor}_scales"].astype(np.float32)[:, :, None]
    else:
        # One a tensor, one a head, or none, which is a one.
        scale = np.ones((1, 1, 1), np.float32) if given is None else given.reshape(1, -1, 1)
    with np.errstate(all="ignore"):
        exact = np.asarray(value * scale, np.float32)
    nan = np.isnan(exact)
    return LoadedSide(
        tensor,
        emission.placement.get(f"out_{tensor}"),
        value,
        np.broadcast_to(scale, value.shape),
        dtypes.from_float32(exact, contract.out).astype(np.int64),
        nan,
        ~nan if contract.nan == "undefined" else np.ones(value.shape, np.bool_),
    )


def written(rows: dict[str, bytes], side: LoadedSide) -> Bytes:
    """One launch's output, uint8 `[tokens, heads, dim, item]`."""
    shape = (*side.placed.dims, ITEMSIZE[side.placed.dtype])
    return np.frombuffer(rows[side.placed.name], np.uint8).reshape(shape)


def element_bits(raw: Bytes) -> Indices:
    """Elements as their bits: `raw` uint8 `[..., item]`."""
    kind = np.uint32 if raw.shape[-1] == 4 else np.uint16
    return np.ascontiguousarray(raw).view(kind)[..., 0].astype(np.int64)


def never_stored(emission: Emission, side: LoadedSide, found: Sequence[Bytes]) -> Mask:
    """Which bytes equal their prefill in the first three launches: they were never stored."""
    offsets = byte_offsets(element_offsets(side.placed), ITEMSIZE[side.placed.dtype])
    suspect = np.ones(offsets.shape, np.bool_)
    for letter, data in zip(PREFILLS, found, strict=True):
        suspect &= data == prefill_rows(emission.placement, emission.case, side.placed.name, offsets, letter)
    return suspect


def wrong_elements(side: LoadedSide, found: Bytes, lost: Mask) -> Mask:
    """Which elements are others than the right ones. Any NaN stands for NaN; -0 and 0 are not the same."""
    got = element_bits(found)
    kind = side.placed.dtype
    assert kind in ("bf16", "fp16", "fp32")
    is_nan = (got & ~dtypes.sign_bit(kind)) > dtypes.infinity_bits(kind)
    right = np.where(side.nan, is_nan, got == side.bits)
    return side.compared & ~right & ~lost.any(axis=-1)
