"""Load targets: every element written to the output, against `decode(code) * scale` rounded to the output's dtype.

The channels are those of a store. `codes` counts elements of the output: `got` and `want` are their bits, `x` is the
code's value. The bytes that must not matter are prefill, unlike in each launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec
import numpy as np

from kvcheck.contract import LoadContract
from kvcheck.draw.image import case_inputs
from kvcheck.draw.inputs import Inputs
from kvcheck.emission import LOADED, TENSORS, change_problem, launch_problem
from kvcheck.judge import determinism, independence
from kvcheck.judge.changes import Changes, changes
from kvcheck.judge.digest import LENGTH
from kvcheck.judge.first import Part, first_stored
from kvcheck.judge.loaded import LoadedSide, element_bits, loaded_side, never_stored, written, wrong_elements
from kvcheck.judge.outcome import outcome
from kvcheck.judge.subject import Bytes, Indices, Mask
from kvcheck.schema import (
    ITEMSIZE,
    CodesVerdict,
    Digest,
    Emission,
    FirstWrong,
    Placed,
    Placement,
    Verdict,
    WritesVerdict,
)


def judge_load(emission: Emission, contract: LoadContract) -> Verdict:
    """Judge what a load target wrote. Raises nothing: a malformed emission is `inconclusive`."""
    placement = emission.placement
    inputs = case_inputs(placement, emission.case, contract)
    signed = _digest(emission)
    reason = _unsupported(contract, placement, inputs)
    if reason:
        return Verdict("unsupported", reason, digest=signed)
    malformed = _problem(emission)
    if malformed:
        return Verdict("inconclusive", malformed, digest=signed)
    sides = tuple(loaded_side(tensor, emission, contract, inputs) for tensor in TENSORS)
    found = [tuple(written(launch.rows, side) for side in sides) for launch in emission.launches]
    lost = [never_stored(emission, side, [both[index] for both in found[:3]]) for index, side in enumerate(sides)]
    wrong = [tuple(wrong_elements(*each) for each in zip(sides, both, lost, strict=True)) for both in found]
    verdict = _verdict(emission, sides, found, lost, wrong, inputs.slots)
    return msgspec.structs.replace(verdict, digest=signed)


def _verdict(
    emission: Emission,
    sides: Sequence[LoadedSide],
    found: Sequence[tuple[Bytes, ...]],
    lost: Sequence[Mask],
    wrong: Sequence[tuple[Mask, ...]],
    slots: Indices,
) -> Verdict:
    values = [np.concatenate([part.ravel() for part in both]) for both in found]
    faulty = [_per_byte(both, found[0]) for both in wrong]
    judged = _per_byte(tuple(side.compared for side in sides), found[0])
    judged &= ~np.concatenate([part.ravel() for part in lost])
    innocent = judged & ~np.logical_or.reduce(faulty)
    changed = changes(emission, LOADED)
    tokens = np.arange(len(slots), dtype=np.int64)
    parts = [Part(side.placed.name, raw.shape, tokens, slots) for side, raw in zip(sides, found[0], strict=True)]
    verdict = Verdict(
        "pass",
        "",
        codes=_codes(sides, found, lost, wrong, slots),
        writes=_writes(parts, sides, lost, values[0], changed),
        independence=independence.independence_verdict(emission.placement, values, innocent, parts),
        determinism=determinism.determinism_verdict(values, faulty, judged, parts),
        inputs=changed.inputs,
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
    outputs = [placed for name in LOADED if (placed := emission.placement.find(name)) is not None]
    if len(outputs) != len(LOADED):
        return "the placement has no output tensors"
    planned = launch_problem(emission.launches, emission.case.cross)
    if planned:
        return planned
    sizes = {placed.name: _size(placed) for placed in outputs}
    for index, launch in enumerate(emission.launches, start=1):
        found = {name: len(data) for name, data in launch.rows.items()}
        if found != sizes:
            return f"launch {index} holds rows of {found} bytes; expected {sizes}"
        wrong = change_problem(emission.placement, launch)
        if wrong:
            return f"launch {index}: {wrong}"
    return ""


def _size(placed: Placed) -> int:
    return int(np.prod(placed.dims)) * ITEMSIZE[placed.dtype]


def _per_byte(elements: Sequence[Mask], like: Sequence[Bytes]) -> Mask:
    return np.concatenate(
        [np.broadcast_to(part[..., None], raw.shape).ravel() for part, raw in zip(elements, like, strict=True)]
    )


def _codes(
    sides: Sequence[LoadedSide],
    found: Sequence[tuple[Bytes, ...]],
    lost: Sequence[Mask],
    wrong: Sequence[tuple[Mask, ...]],
    slots: Indices,
) -> CodesVerdict:
    k, v = (int(part.sum()) for part in wrong[0])
    anywhere = sum(int(np.logical_or.reduce(each).sum()) for each in zip(*wrong, strict=True))
    k_compared, v_compared = (
        int((side.compared & ~part.any(axis=-1)).sum()) for side, part in zip(sides, lost, strict=True)
    )
    each = (
        _first(side, raw, part, slots, number)
        for number, (both, masks) in enumerate(zip(found, wrong, strict=True), 1)
        for side, raw, part in zip(sides, both, masks, strict=True)
    )
    first = next((one for one in each if one is not None), None)
    return CodesVerdict(k_compared + v_compared, k + v, 0, k + v, anywhere, k, v, first, k_compared, v_compared)


def _first(side: LoadedSide, raw: Bytes, wrong: Mask, slots: Indices, launch: int) -> FirstWrong | None:
    if not wrong.any():
        return None
    token, head, dim = (int(index) for index in np.argwhere(wrong)[0])
    at = (token, head, dim)
    value = float(side.value[at])
    return FirstWrong(
        side.tensor, token, head, dim, int(slots[token]), int(element_bits(raw)[at]), int(side.bits[at]),
        value if np.isfinite(value) else None, float(side.scale[at]), launch,
    )  # fmt: skip


def _writes(
    parts: Sequence[Part], sides: Sequence[LoadedSide], lost: Sequence[Mask], stored: Bytes, changed: Changes
) -> WritesVerdict:
    k, v = (int(part.sum()) for part in lost)
    due = np.concatenate([side.right.ravel() for side in sides])
    return WritesVerdict(
        k + v, changed.stray, k, v, changed.k_stray, changed.v_stray,
        first_stored(parts, np.concatenate([part.ravel() for part in lost]), stored, due, 1), changed.first_stray,
    )  # fmt: skip


def _digest(emission: Emission) -> Digest | None:
    """The output stands for the codes; no scales are written. None where a launch left no whole output."""
    rows = emission.launches[0].rows if emission.launches else {}
    if any(name not in rows for name in LOADED):
        return None
    written_bytes = sha256(b"".join(rows[name] for name in LOADED)).hexdigest()[:LENGTH]
    return Digest(codes=written_bytes, scales=sha256(b"").hexdigest()[:LENGTH])
