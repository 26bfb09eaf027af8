"""Records beside codes: the same rows, the same tensor, or another."""

from __future__ import annotations

import pytest

from kvcheck.sanitizer.agreement import agreement
from kvcheck.schema import CodesVerdict, Diagnosis, SanitizerRecord

PITCH = Diagnosis("sibling-pitch", "v", 9, 9, "V is read with K's pitch", {"pitch_used": 1152})


def seen(tensor: str, pitch: int | None = None) -> SanitizerRecord:
    """A record on a tensor."""
    return SanitizerRecord("initcheck", "uninitialised", "reads", tensor=tensor, pitch=pitch)


K, V, BOTH, RIGHT = (CodesVerdict(9, k + v, k_wrong=k, v_wrong=v) for k, v in ((9, 0), (0, 9), (9, 9), (0, 0)))


@pytest.mark.parametrize(
    ("records", "codes", "diagnosis", "says"),
    [
        ([seen("v", 1152)], V, [PITCH], "initcheck and the codes name the same rows: V at pitch 1152"),
        ([seen("v", 1152), seen("v")], V, [PITCH], "initcheck and the codes name the same rows: V at pitch 1152"),
        ([seen("v", 384)], V, [PITCH], "initcheck and the codes both name V"),
        ([seen("v")], V, [], "initcheck and the codes both name V"),
        ([seen("v_scales"), seen("k")], BOTH, [], "initcheck and the codes both name K and V"),
        ([seen("v"), seen("k")], V, [PITCH], "initcheck and the codes both name V; initcheck names K too"),
        ([seen("k_codes")], V, [PITCH], "initcheck names K, and the wrong codes are V's"),
        ([seen("out_v")], K, [], "initcheck names V, and the wrong codes are K's"),
        ([seen("v")], RIGHT, [], "initcheck names V, where every code is right"),
        ([seen("v")], CodesVerdict(), [], ""),
        ([seen("slots")], V, [PITCH], ""),
        ([], V, [PITCH], ""),
    ],
)
def test_one_sentence(
    records: list[SanitizerRecord], codes: CodesVerdict, diagnosis: list[Diagnosis], says: str
) -> None:
    """Empty where records or codes name no tensor of K's or V's."""
    assert agreement("initcheck", records, codes, diagnosis) == says
