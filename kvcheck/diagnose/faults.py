"""Every fault that has a prediction."""

from __future__ import annotations

from collections.abc import Iterable

from kvcheck.diagnose.codes import CODES
from kvcheck.diagnose.encoding import DOUBLE_ROUNDING_BF16, DOUBLE_ROUNDING_FP16, ROUNDING_MODE
from kvcheck.diagnose.family import by_name
from kvcheck.diagnose.fault import Fault
from kvcheck.diagnose.reads import READS
from kvcheck.diagnose.retyped import RetypedSource
from kvcheck.diagnose.scales import SCALES
from kvcheck.diagnose.sibling_pitch import SiblingPitch
from kvcheck.diagnose.writes import WRITES

#: Faults of scales and codes: what is done to rows, wherever they were read. They may come on top of a wrong address.
NUMERIC: tuple[Fault, ...] = (DOUBLE_ROUNDING_FP16, DOUBLE_ROUNDING_BF16, ROUNDING_MODE, *SCALES, *CODES)

#: In the order in which equals are named: new ones go to the end, reports point into the list of their own run.
FAULTS: tuple[Fault, ...] = by_name((SiblingPitch(), *NUMERIC, *READS, *WRITES, RetypedSource()))


def form_names(slug: str, forms: Iterable[str]) -> list[str]:
    """Forms of a fault as reports name them: `fault: form`, or the fault alone where the form needs no words."""
    return [f"{slug}: {form}" if form else slug for form in forms]
