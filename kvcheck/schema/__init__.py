"""The frozen data that passes between stages: Case → Placement → Emission → Verdict → Diagnosis → CaseResult → Report.

A stage reads these and writes these, and imports no other stage. Offsets are in bytes, strides in elements of the
tensor's own dtype, unless a name says otherwise. `slot` is a row of the cache, `token` a row of K and V. What a
report holds only grows: a new field has a default, so that older reports still read.

Import the names from here; a module each holds those of one stage, in the order in which a case passes them:
`names`, `case`, `placement`, `emission`, `verdict`, `diagnosis`, `sanitizer`, `report`.
"""

from __future__ import annotations

from kvcheck.schema.case import Case
from kvcheck.schema.diagnosis import Diagnosis
from kvcheck.schema.emission import Change, Copy, Emission, Launch, Received
from kvcheck.schema.names import ITEMSIZE, Dtype, Execution, Outcome, Poison, Prefill, Tensor
from kvcheck.schema.placement import Placed, Placement, Region
from kvcheck.schema.report import CaseResult, Compiled, CompileFact, Report, TargetFacts, Together
from kvcheck.schema.sanitizer import SanitizerAccess, SanitizerKind, SanitizerRecord, SanitizerRun, Side
from kvcheck.schema.verdict import (
    CodesVerdict,
    DeterminismVerdict,
    Digest,
    FirstByte,
    FirstScale,
    FirstWrong,
    IndependenceVerdict,
    InputsVerdict,
    ProcessVerdict,
    ScalesVerdict,
    Tolerance,
    ToleranceVerdict,
    Verdict,
    WritesVerdict,
)

__all__ = [
    "ITEMSIZE",
    "Case",
    "CaseResult",
    "Change",
    "CodesVerdict",
    "CompileFact",
    "Compiled",
    "Copy",
    "DeterminismVerdict",
    "Diagnosis",
    "Digest",
    "Dtype",
    "Emission",
    "Execution",
    "FirstByte",
    "FirstScale",
    "FirstWrong",
    "IndependenceVerdict",
    "InputsVerdict",
    "Launch",
    "Outcome",
    "Placed",
    "Placement",
    "Poison",
    "Prefill",
    "ProcessVerdict",
    "Received",
    "Region",
    "Report",
    "SanitizerAccess",
    "SanitizerKind",
    "SanitizerRecord",
    "SanitizerRun",
    "ScalesVerdict",
    "Side",
    "TargetFacts",
    "Tensor",
    "Together",
    "Tolerance",
    "ToleranceVerdict",
    "Verdict",
    "WritesVerdict",
]
