"""A word on limits where nothing was compared."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.report.limits import limits
from kvcheck.report.sentences import notes
from kvcheck.schema import CaseResult, ProcessVerdict

from .samples import CRASH, PASS, report

UNCOMPARED = msgspec.structs.replace(CRASH, id="ab", outcome="unsupported", process=ProcessVerdict(exit=0))


def raising(error: str, identifier: str = "c0", *, signal: str | None = None, **axes: str | int) -> CaseResult:
    """A case that died of an exception."""
    process = ProcessVerdict(exit=1, error=f"Traceback (most recent call last):\n{error}\n", signal=signal)
    return msgspec.structs.replace(CRASH, id=identifier, axes=axes, process=process, reason=error, diagnosis=())


def outside(reason: str, identifier: str = "u0", **axes: str | int) -> CaseResult:
    """A case that the target does not take."""
    return msgspec.structs.replace(UNCOMPARED, id=identifier, axes=axes, reason=reason)


def test_what_all_cases_had_is_said_where_all_raise_alike() -> None:
    """Numbers aside; what varies is left out, and what is no power of two is told."""
    cases = (raising("ValueError: 3 heads", "a", tokens=4), raising("ValueError: 4 heads", "b", dtype="fp16"))
    says = (
        "All 2 cases raised alike, with heads=3 head_dim=128 (heads no power of two): what an engine documents not to "
        "take belongs in accepts= or refuses=, and a matrix without it is needed; what it does not is a fault."
    )
    assert limits(report(*cases)) == [says]
    assert notes(report(*cases))[0] == says
    assert limits(report(*cases, outside("takes dtype bf16; the case has fp32"))) == [says]


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ({"heads": 8}, "with heads=8 head_dim=128 dtype=bf16: what"),
        ({"head_dim": 80}, "with heads=3 head_dim=80 dtype=bf16 (heads and head_dim no powers of two): what"),
    ],
)
def test_sizes_are_told_for_one_case(axes: dict[str, int], says: str) -> None:
    """As they are."""
    (line,) = limits(report(msgspec.structs.replace(raising("ValueError: no"), axes=axes)))
    assert line.startswith(f"The one case raised, {says}")


@pytest.mark.parametrize(
    "error",
    [
        "NameError: name 'x' is not defined",
        "ModuleNotFoundError: No module named 'engine'",
        "AttributeError: no pages",
        "TypeError: missing an argument",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "ValueError: type fp8e4nv not supported in this architecture",
        "torch.OutOfMemoryError: CUDA out of memory",
    ],
)
def test_what_no_input_is_the_cause_of_is_no_limit(error: str) -> None:
    """The adapter's slip, the arch, an access that is a fault."""
    assert limits(report(raising(error))) == []


def test_nothing_is_said_where_there_is_more_to_see() -> None:
    """A compared case, two ways to die, a signal, other outcomes, no case, sizes that vary."""
    died = raising("ValueError: no")
    assert limits(report(died, PASS)) == []
    assert limits(report(died, raising("KeyError: other", "d"))) == []
    assert limits(report(raising("ValueError: no", signal="SIGSEGV"))) == []
    assert limits(report(died, msgspec.structs.replace(UNCOMPARED, outcome="inconclusive"))) == []
    assert limits(report()) == []
    varied = (raising("ValueError: no", "a", heads=1, head_dim=64), raising("ValueError: no", "b", dtype="fp16"))
    assert limits(report(*varied)) == []


def test_cases_that_are_all_outside_need_another_matrix() -> None:
    """By what the target declares alone: an engine that is missing needs no matrix."""
    found = outside("takes head_dim 576; the case has 128")
    says = "is outside what the target declares, with heads=3 head_dim=128 dtype=bf16: a matrix file of your own can"
    assert limits(report(found)) == [f"The one case {says} have, as [fixed] or [axes], what it takes."]
    other = outside("takes heads 1; the case has 3", "u1", heads=2, head_dim=64, dtype="fp16")
    assert limits(report(found, other))[0].startswith("All 2 cases are outside what the target declares: a matrix")
    assert limits(report(found, outside("not found; pip install it", "u1"))) == []
    assert limits(report(msgspec.structs.replace(found, outcome="refused", reason="no"))) == []
