"""Load targets: every element written to the output, against `decode(code) * scale` rounded to the output's dtype.

The channels are those of a store. `codes` counts elements of the output: `got` and `want` are their bits, `x` is the
code's value. The bytes that must not matter are prefill, unlike in each launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec
import numpy as np

from kvcheck.addresses import byte_offsets, element_offsets
from kvcheck.contract import LoadContract
from kvcheck.draw import dtypes
from kvcheck.draw.image import case_inputs, loaded_rows, prefill_rows
from kvcheck.draw.inputs import Inputs
from kvcheck.formats.decode import decode
from kvcheck.judge import determinism, independence
from kvcheck.judge.digest import LENGTH
from kvcheck.judge.emitted import PLAN
from kvcheck.judge.outcome import outcome
from kvcheck.judge.subject import TENSORS, Bytes, Floats, Indices, Mask
from kvcheck.judge.writes import PREFILLS, changed, position
from kvcheck.schema import (
    ITEMSIZE,
    CodesVerdict,
    Digest,
    Emission,
    FirstWrong,
    InputsVerdict,
    Placed,
    Placement,
    Tensor,
    Verdict,
    WritesVerdict,
)

OUTPUTS = ("out_k", "out_v")


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


def judge_load(emission: Emission, contract: LoadContract) -> Verdict:
    """Judge what a load target wrote. Raises nothing: a malformed emission is `inconclusive`."""
    placement = emission.placement
    inputs = case_inputs(placement, emission.case, contract)
    reason = _unsupported(contract, placement, inputs)
    if reason:
        return Verdict("unsupported", reason)
    malformed = _problem(emission)
    if malformed:
        return Verdict("inconclusive", malformed)
    sides = tuple(_side(tensor, emission, contract, inputs) for tensor in TENSORS)
    found = [tuple(_rows(launch.rows, side) for side in sides) for launch in emission.launches]
    lost = [_lost(emission, side, [both[index] for both in found[:3]]) for index, side in enumerate(sides)]
    wrong = [tuple(_wrong(*each) for each in zip(sides, both, lost, strict=True)) for both in found]
    return _verdict(emission, sides, found, lost, wrong)


def _verdict(
    emission: Emission,
    sides: Sequence[LoadedSide],
    found: Sequence[tuple[Bytes, ...]],
    lost: Sequence[Mask],
    wrong: Sequence[tuple[Mask, ...]],
) -> Verdict:
    values = [np.concatenate([part.ravel() for part in both]) for both in found]
    faulty = [_per_byte(both, found[0]) for both in wrong]
    judged = _per_byte(tuple(side.compared for side in sides), found[0])
    judged &= ~np.concatenate([part.ravel() for part in lost])
    innocent = judged & ~np.logical_or.reduce(faulty)
    unchanged, stray = _changes(emission)
    verdict = Verdict(
        "pass",
        "",
        codes=_codes(sides, found[0], lost, wrong, emission),
        writes=WritesVerdict(sum(int(part.sum()) for part in lost), stray),
        independence=independence.independence_verdict(emission.placement, values, innocent),
        determinism=determinism.determinism_verdict(values, faulty, judged),
        inputs=unchanged,
        digest=_digest(emission),
    )
    missing = determinism.repeat_is_missing(values, judged)
    word, reason = outcome(verdict, "launches 1 and 3 differ, and no fourth was made" if missing else "")
    return msgspec.structs.replace(verdict, outcome=word, reason=reason)


def _unsupported(contract: LoadContract, placement: Placement, inputs: Inputs) -> str:
    """Why this case's output is not defined; empty where it is."""
    if (inputs.slots < 0).any():
        return "a load contract does not say what negative slots load"
    if contract.scale == "token_head" and placement.find("k_scales") is None:
        return "the contract has a scale a token and head, and the form says scales='none'"
    return ""


def _problem(emission: Emission) -> str:
    """Why an emission cannot be judged, in one line; empty where it can."""
    made = tuple((launch.prefill, launch.poison) for launch in emission.launches)
    if made not in (PLAN[:3], PLAN):
        return f"{len(made)} launches with prefill and poison {made}; expected {PLAN[:3]} and perhaps {PLAN[3]}"
    outputs = [placed for name in OUTPUTS if (placed := emission.placement.find(name)) is not None]
    if len(outputs) != len(OUTPUTS):
        return "the placement has no output tensors"
    sizes = {placed.name: _size(placed) for placed in outputs}
    for index, launch in enumerate(emission.launches, start=1):
        found = {name: len(data) for name, data in launch.rows.items()}
        if found != sizes:
            return f"launch {index} holds rows of {found} bytes; expected {sizes}"
        for change in launch.changes:
            inside = 0 <= change.allocation < len(emission.placement.allocations)
            end = change.offset + len(change.data)
            if not inside or change.offset < 0 or end > emission.placement.allocations[change.allocation]:
                return f"launch {index}: a change outside allocation {change.allocation}"
    return ""


def _size(placed: Placed) -> int:
    return int(np.prod(placed.dims)) * ITEMSIZE[placed.dtype]


def _side(tensor: Tensor, emission: Emission, contract: LoadContract, inputs: Inputs) -> LoadedSide:
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


def _rows(rows: dict[str, bytes], side: LoadedSide) -> Bytes:
    """One launch's output, uint8 `[tokens, heads, dim, item]`."""
    shape = (*side.placed.dims, ITEMSIZE[side.placed.dtype])
    return np.frombuffer(rows[side.placed.name], np.uint8).reshape(shape)


def _bits(raw: Bytes) -> Indices:
    kind = np.uint32 if raw.shape[-1] == 4 else np.uint16
    return np.ascontiguousarray(raw).view(kind)[..., 0].astype(np.int64)


def _lost(emission: Emission, side: LoadedSide, found: Sequence[Bytes]) -> Mask:
    """Which bytes equal their prefill in the first three launches: they were never stored."""
    offsets = byte_offsets(element_offsets(side.placed), ITEMSIZE[side.placed.dtype])
    suspect = np.ones(offsets.shape, np.bool_)
    for letter, data in zip(PREFILLS, found, strict=True):
        suspect &= data == prefill_rows(emission.placement, emission.case, side.placed.name, offsets, letter)
    return suspect


def _wrong(side: LoadedSide, found: Bytes, lost: Mask) -> Mask:
    """Which elements are others than the right ones. Any NaN stands for NaN; -0 and 0 are not the same."""
    got = _bits(found)
    kind = side.placed.dtype
    assert kind in ("bf16", "fp16", "fp32")
    is_nan = (got & ~dtypes.sign_bit(kind)) > dtypes.infinity_bits(kind)
    right = np.where(side.nan, is_nan, got == side.bits)
    return side.compared & ~right & ~lost.any(axis=-1)


def _per_byte(elements: Sequence[Mask], like: Sequence[Bytes]) -> Mask:
    return np.concatenate(
        [np.broadcast_to(part[..., None], raw.shape).ravel() for part, raw in zip(elements, like, strict=True)]
    )


def _codes(
    sides: Sequence[LoadedSide],
    found: Sequence[Bytes],
    lost: Sequence[Mask],
    wrong: Sequence[tuple[Mask, ...]],
    emission: Emission,
) -> CodesVerdict:
    k, v = (int(part.sum()) for part in wrong[0])
    anywhere = sum(int(np.logical_or.reduce(each).sum()) for each in zip(*wrong, strict=True))
    compared = sum(int((side.compared & ~part.any(axis=-1)).sum()) for side, part in zip(sides, lost, strict=True))
    first = None
    for side, raw, part in zip(sides, found, wrong[0], strict=True):
        if first is None and part.any():
            first = _first(side, raw, part, emission)
    return CodesVerdict(compared, k + v, 0, k + v, anywhere, k, v, first)


def _first(side: LoadedSide, raw: Bytes, wrong: Mask, emission: Emission) -> FirstWrong:
    token, head, dim = (int(index) for index in np.argwhere(wrong)[0])
    slots = case_inputs(emission.placement, emission.case, emission.contract).slots
    at = (token, head, dim)
    value = float(side.value[at])
    return FirstWrong(
        side.tensor, token, head, dim, int(slots[token]), int(_bits(raw)[at]), int(side.bits[at]),
        value if np.isfinite(value) else None, float(side.scale[at]),
    )  # fmt: skip


def _changes(emission: Emission) -> tuple[InputsVerdict, int]:
    """Changed bytes by whose they are: all that a load target is handed but its output is an input."""
    where = changed(emission.launches)
    owned = np.zeros(where.shape, np.bool_)
    names = []
    for tensor in emission.placement.tensors:
        if tensor.name in OUTPUTS or not len(where):
            continue
        offsets = byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype])
        mine = np.isin(where, position(tensor.allocation, offsets.ravel()))
        if mine.any():
            names.append(tensor.name)
        owned |= mine
    return InputsVerdict(int(owned.sum()), tuple(names)), int((~owned).sum())


def _digest(emission: Emission) -> Digest:
    """The output stands for the codes; no scales are written."""
    rows = emission.launches[0].rows
    written = sha256(rows["out_k"] + rows["out_v"]).hexdigest()[:LENGTH]
    return Digest(codes=written, scales=sha256(b"").hexdigest()[:LENGTH])
