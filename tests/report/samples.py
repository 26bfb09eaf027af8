"""Results and reports made up for the tests: one case of every kind that a report has to show."""

from __future__ import annotations

from datetime import datetime, timezone

import msgspec

from kvcheck.contract import Computed, Contract, Form
from kvcheck.report.build import build
from kvcheck.schema import (
    CaseResult,
    CodesVerdict,
    Copy,
    DeterminismVerdict,
    Diagnosis,
    Digest,
    FirstWrong,
    IndependenceVerdict,
    InputsVerdict,
    ProcessVerdict,
    Report,
    ScalesVerdict,
    TargetFacts,
    Tolerance,
    ToleranceVerdict,
    WritesVerdict,
)

FAULTS = ("sibling-pitch", "dense-heads", "index-wrap", "graph-stale")
NOW = datetime(2026, 3, 4, 5, 6, 7, 890, tzinfo=timezone.utc)
COMMAND = "kvcheck matrix --target specimen:shared-pitch --arch sm_90 --out reports"
H200: dict[str, str | int | float | bool | None] = {
    "gpu": "NVIDIA H200",
    "arch": "sm_90",
    "driver": "580.65.06",
    "cuda": "13.0",
    "torch": "2.11.0",
    "triton": "3.6.0",
    "python": "3.12.3",
    "platform": "Linux x86_64",
    "torch_cast": "satfinite above 464: NaN",
    "fp_fusion": True,
    "sanitizer": None,
}
TRACEBACK = """Traceback (most recent call last):
  File "store.py", line 41, in store
    kernel[grid](k, v, slots, cache.k.codes, cache.v.codes)
  File "launcher.py", line 310, in run
    self.check(arguments)
triton.compiler.errors.CompilationError: at 17:8: type fp8e4nv not supported in this architecture (got 80)
"""

PASS = CaseResult(
    id="a1b2c3",
    axes={},
    outcome="pass",
    seconds=0.21,
    cold_confirmed=None,
    device="NVIDIA H200",
    reason="",
    codes=CodesVerdict(compared=6144),
    scales=ScalesVerdict(compared=48),
    writes=WritesVerdict(),
    independence=IndependenceVerdict(differs=0),
    determinism=DeterminismVerdict(launches=3),
    inputs=InputsVerdict(),
    copies=(),
    process=ProcessVerdict(exit=0),
    sanitizer=(),
    tolerance=ToleranceVerdict(k=Tolerance(0.031, True, 0.03, True), v=Tolerance(0.0004, True, 0.03, True)),
    digest=Digest("11" * 8, "22" * 8),
    diagnosis=(),
    observable=(0, 1),
)

QKV = {"k_view": "qkv", "k_values": "columns*5", "v_values": "columns*0.01"}

FIRST = FirstWrong(
    tensor="v", token=1, head=0, dim=0, slot=4, got=0x7E, want=0x31, x=0.00341796875, scale=2.18493598e-05
)
SIBLING = Diagnosis(
    fault="sibling-pitch",
    tensor="v",
    explains=2684,
    of=2684,
    says="V is read with K's pitch: 1152 elements from row to row instead of 384.",
    evidence={"pitch": 1152, "declared": 384},
)
SEED = msgspec.structs.replace(
    PASS,
    id="3fa9c1",
    axes=QKV,
    outcome="mismatch",
    cold_confirmed=True,
    reason="2684 codes wrong",
    codes=CodesVerdict(
        compared=6144,
        wrong=2684,
        wrong_given_emitted=2684,
        wrong_any_launch=2684,
        k_wrong=0,
        v_wrong=2684,
        first=FIRST,
    ),
    tolerance=ToleranceVerdict(k=Tolerance(0.58, False, 0.031, True), v=Tolerance(0.042, True, 4.2, False)),
    diagnosis=(SIBLING, Diagnosis("dense-heads", "v", 764, 2684, "V's heads are read as dense.", {})),
)
NAMELESS = msgspec.structs.replace(SEED, id="77aa01", diagnosis=())
CRASH = msgspec.structs.replace(
    PASS,
    id="c0ffee",
    axes={"dtype": "fp16", "tokens": 9},
    outcome="crash",
    reason="CompilationError",
    codes=CodesVerdict(),
    scales=ScalesVerdict(),
    independence=IndependenceVerdict(),
    determinism=DeterminismVerdict(),
    process=ProcessVerdict(exit=1, error=TRACEBACK),
    tolerance=ToleranceVerdict(),
    digest=None,
    observable=(),
)
SEGFAULT = msgspec.structs.replace(
    CRASH, id="dead01", axes={"layout": "fenced"}, process=ProcessVerdict(exit=None, signal="SIGSEGV"), reason=""
)
TIMEOUT = msgspec.structs.replace(
    CRASH, id="71ae00", axes={"tokens": 4096}, outcome="timeout", reason="no end after 60 s", process=ProcessVerdict()
)
VIOLATION = msgspec.structs.replace(
    PASS,
    id="0b5e55",
    axes={"layout": "pooled"},
    outcome="violation",
    reason="reads memory it must not",
    independence=IndependenceVerdict(differs=14),
    determinism=DeterminismVerdict(launches=4, positions_drift=0, values_drift=3),
    inputs=InputsVerdict(changed=16, tensors=("k", "slots")),
    sanitizer=("Invalid __global__ read of size 2 bytes at store.py:41",),
)
INCONCLUSIVE = msgspec.structs.replace(
    CRASH,
    id="1dea00",
    axes={"v_values": "huge"},
    outcome="inconclusive",
    reason="the interpreter's cast does not pass its self-test on triton 3.8.1",
    process=ProcessVerdict(exit=0),
)
UNSUPPORTED = msgspec.structs.replace(
    INCONCLUSIVE,
    id="5e7a11",
    axes={"k_view": "inner2"},
    outcome="unsupported",
    reason="accepts inner=1; K has an inner stride of 2",
)
REFUSED = msgspec.structs.replace(
    INCONCLUSIVE, id="0ff000", axes={"head_dim": 80}, outcome="refused", reason="AssertionError: head_dim | 16 == 0"
)
XPASS = msgspec.structs.replace(PASS, id="9a5500", axes={"k_view": "qkv"}, outcome="xpass")
XFAIL = msgspec.structs.replace(SEED, id="4fa110", outcome="xfail")
POOLED = msgspec.structs.replace(
    PASS,
    id="b00100",
    axes={"layout": "pooled"},
    independence=IndependenceVerdict(None, "no poison in layout pooled"),
    codes=CodesVerdict(compared=6144, legal=5),
    copies=(Copy("v", "aten.clone", 1),),
)

EVERY = (
    PASS,
    SEED,
    CRASH,
    SEGFAULT,
    TIMEOUT,
    VIOLATION,
    INCONCLUSIVE,
    UNSUPPORTED,
    REFUSED,
    XPASS,
    XFAIL,
    POOLED,
)

TARGET = TargetFacts(
    name="specimen:shared-pitch",
    kind="store",
    contract=Contract(scale=Computed(eps=1e-10)),
    form=Form(),
    kernels_sha256="ab" * 32,
    version=None,
    path="kvcheck/kernels/specimens/shared_pitch.py",
)


def report(*cases: CaseResult, planned: int | None = None, **changes: object) -> Report:
    """A report of these cases on an H200, with any other field changed."""
    built = build(
        cases,
        planned=len(cases) if planned is None else planned,
        environment=H200,
        target=TARGET,
        arch="sm_90",
        execution="native",
        command=COMMAND,
        faults=FAULTS,
        now=NOW,
    )
    return msgspec.structs.replace(built, **changes)
