"""The channels that a case may be condemned by, and those that condemned one."""

from __future__ import annotations

from typing import Literal, TypeAlias

from kvcheck.schema import CaseResult

Channel: TypeAlias = Literal["codes", "scales", "lost", "stray", "independence", "determinism", "inputs", "crash"]


def channels(result: CaseResult) -> set[Channel]:
    """Every channel that condemned a case."""
    codes, scales, determinism = result.codes, result.scales, result.determinism
    found: dict[Channel, object] = {
        "codes": codes.wrong or codes.wrong_any_launch,
        "scales": scales.wrong or scales.wrong_any_launch,
        "lost": result.writes.lost,
        "stray": result.writes.stray,
        "independence": result.independence.differs,
        "determinism": determinism.positions_drift or determinism.values_drift,
        "inputs": result.inputs.changed,
        "crash": result.outcome == "crash",
    }
    return {channel for channel, count in found.items() if count}
