"""How what a tool saw and what the codes say stand to each other, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from kvcheck.schema import CodesVerdict, Diagnosis, SanitizerRecord

#: Of a diagnosis, what names a row pitch.
_PITCH = "pitch_used"


def agreement(
    tool: str, records: Sequence[SanitizerRecord], codes: CodesVerdict, diagnosis: Sequence[Diagnosis]
) -> str:
    """Whether records and codes name the same tensor, and the same pitch; empty where either says nothing."""
    seen = {_side(record.tensor) for record in records} - {""}
    wrong = {side for side, count in (("k", codes.k_wrong), ("v", codes.v_wrong)) if count}
    if not seen:
        return ""
    if not wrong:
        return f"{tool} names {_joined(seen)}, where every code is right" if codes.compared else ""
    if not seen & wrong:
        return f"{tool} names {_joined(seen)}, and the wrong codes are {_joined(wrong, own=True)}"
    first = diagnosis[0] if diagnosis else None
    pitch = first.evidence.get(_PITCH) if first is not None else None
    if first is not None and isinstance(pitch, int):
        same = {record.pitch for record in records if _side(record.tensor) == first.tensor} - {None}
        if same == {pitch}:
            return f"{tool} and the codes name the same rows: {first.tensor.upper()} at pitch {pitch}"
    both = f"{tool} and the codes both name {_joined(seen & wrong)}"
    more = seen - wrong
    return f"{both}; {tool} names {_joined(more)} too" if more else both


def _side(tensor: str) -> str:
    """`k` or `v` of a tensor of either; empty for others."""
    if tensor in ("k", "v") or tensor[:2] in ("k_", "v_"):
        return tensor[0]
    return tensor[-1] if tensor in ("out_k", "out_v") else ""


def _joined(sides: set[str], *, own: bool = False) -> str:
    return " and ".join(f"{side.upper()}'s" if own else side.upper() for side in sorted(sides))
