"""The judge: wires the channels, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from kvcheck.contract import Computed, LoadContract
from kvcheck.draw.image import case_inputs
from kvcheck.emission import STORED
from kvcheck.judge import codes, determinism, duplicates, independence, scales, stored, writes
from kvcheck.judge.changes import changes
from kvcheck.judge.digest import digest
from kvcheck.judge.emitted import Emitted, emitted, problem
from kvcheck.judge.expected import Expected, expected
from kvcheck.judge.load import judge_load
from kvcheck.judge.outcome import outcome
from kvcheck.judge.subject import Mask, Subject, subject
from kvcheck.judge.support import contract_reason, slots_reason
from kvcheck.judge.tolerance import tolerance
from kvcheck.schema import Emission, Launch, ToleranceVerdict, Verdict


@dataclass(frozen=True)
class JudgedLaunch:
    """One launch's codes of K and V, and its scales where any are stored."""

    found: tuple[Emitted, ...]
    right: tuple[Expected, ...]
    codes: tuple[codes.JudgedCodes, ...]
    scales: tuple[scales.JudgedScales, ...]


def judge(emission: Emission) -> Verdict:
    """Judge what a case's process says its target did. Raises nothing: a malformed emission is `inconclusive`."""
    signed = digest(emission.launches[0]) if emission.launches else None
    contract = emission.contract
    if isinstance(contract, LoadContract):
        return judge_load(emission, contract)
    reason = contract_reason(contract)
    if reason:
        return Verdict("unsupported", reason, digest=signed)
    drawn = case_inputs(emission.placement, emission.case, contract)
    reason = slots_reason(contract, drawn.slots)
    if reason:
        return Verdict("unsupported", reason, digest=signed)
    case = subject(emission, contract, drawn)
    malformed = problem(emission, case.rows)
    if malformed:
        return Verdict("inconclusive", malformed, digest=signed)
    return _verdict(case, emission, msgspec.structs.replace(Verdict("pass", ""), digest=signed))


def _verdict(case: Subject, emission: Emission, blank: Verdict) -> Verdict:
    launches = [launch for launch in emission.launches if launch.redrawn is None]
    found = [tuple(emitted(launch, side, case) for side in case.sides) for launch in launches]
    lost = [writes.lost(case, side, [both[index] for both in found]) for index, side in enumerate(case.sides)]
    judged = [_judged_launch(case, both, lost) for both in found]
    changed = changes(emission, STORED)

    parts = stored.stored_parts(case, judged[0].found)
    values = [stored.stored_bytes(launch.found) for launch in judged]
    wrong = [stored.wrong_bytes(launch.codes, launch.scales, lost) for launch in judged]
    comparable = stored.comparable(case, judged[0].found)
    open_bytes: Mask = np.logical_or.reduce([stored.unjudged_bytes(launch.codes, lost) for launch in judged])
    innocent = comparable & ~open_bytes & ~np.logical_or.reduce(wrong)

    first = judged[0]
    k, v = (tolerance(*args) for args in zip(case.sides, first.right, first.found, strict=True))
    verdict = msgspec.structs.replace(
        blank,
        codes=codes.codes_verdict([launch.codes for launch in judged], case.rows),
        scales=scales.scales_verdict([launch.scales for launch in judged], case.rows),
        writes=writes.writes_verdict(lost, parts, values[0], stored.right_bytes(case, first.right), changed),
        independence=independence.independence_verdict(
            case.placement, values, innocent, parts, _crossed(case, emission.launches)
        ),
        determinism=determinism.determinism_verdict(values, wrong, comparable & ~open_bytes, parts),
        inputs=changed.inputs,
        tolerance=ToleranceVerdict(k, v),
    )
    missing = determinism.repeat_is_missing(values, comparable & ~open_bytes)
    word, reason = outcome(verdict, "launches 1 and 3 differ, and no fourth was made" if missing else "")
    return msgspec.structs.replace(verdict, outcome=word, reason=reason)


def _crossed(case: Subject, made: Sequence[Launch]) -> list[independence.Crossed]:
    """The launches in which one tensor held other values, and which bytes are its sibling's."""
    crossed = []
    for number, launch in enumerate(made, 1):
        if launch.redrawn is not None:
            found = tuple(emitted(launch, side, case) for side in case.sides)
            sibling = stored.of_other_side(case, found, launch.redrawn)
            crossed.append(independence.Crossed(number, stored.stored_bytes(found), sibling))
    return crossed


def _judged_launch(case: Subject, found: tuple[Emitted, ...], lost: Sequence[writes.Lost]) -> JudgedLaunch:
    right, judged_codes, judged_scales = [], [], []
    for side, emission, missing in zip(case.sides, found, lost, strict=True):
        due = expected(case.rows, side, duplicates.sources(case.rows, side, emission))
        verdict = None
        rule = case.contract.scale
        if isinstance(rule, Computed) and emission.scale is not None and missing.elements is not None:
            verdict = scales.judge_scales(side.tensor, rule, due, emission.scale, missing.elements)
            judged_scales.append(verdict)
        right.append(due)
        judged_codes.append(codes.judge_codes(side, due, emission, verdict, missing.codes))
    return JudgedLaunch(found, tuple(right), tuple(judged_codes), tuple(judged_scales))
