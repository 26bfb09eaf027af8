"""What `report.json` holds: the target, its cases with all that was said of each, and what compilers made of it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from kvcheck.contract import Contract, Form, LoadContract
from kvcheck.schema.diagnosis import Diagnosis
from kvcheck.schema.emission import Copy
from kvcheck.schema.names import Execution, Outcome
from kvcheck.schema.sanitizer import SanitizerRun
from kvcheck.schema.verdict import (
    CodesVerdict,
    DeterminismVerdict,
    Digest,
    IndependenceVerdict,
    InputsVerdict,
    ProcessVerdict,
    ScalesVerdict,
    ToleranceVerdict,
    WritesVerdict,
)


class CaseResult(msgspec.Struct, frozen=True):
    """One case of a report: the axes, the verdict's channels, the diagnosis, and what a pass could have seen."""

    id: str
    axes: dict[str, str | int]
    outcome: Outcome
    seconds: float
    cold_confirmed: bool | None
    device: str
    reason: str
    codes: CodesVerdict
    scales: ScalesVerdict
    writes: WritesVerdict
    independence: IndependenceVerdict
    determinism: DeterminismVerdict
    inputs: InputsVerdict
    copies: tuple[Copy, ...]
    process: ProcessVerdict
    sanitizer: tuple[str, ...]
    tolerance: ToleranceVerdict
    digest: Digest | None
    diagnosis: tuple[Diagnosis, ...]
    observable: tuple[int, ...]
    """Indices into the report's `faults`: those that fail this case in each of their usual forms.

    A pass rules them out. `compile-failure` is never among them: whether a kernel compiles is nothing that bytes say.
    """
    sanitized: tuple[SanitizerRun, ...] = ()
    """What `kvcheck sanitize` saw; `sanitizer` has the same as sentences."""
    shown: tuple[int, ...] = ()
    """Indices into the report's `forms`: a kernel with one of these fails this case, and one with another passes."""


Compiled: TypeAlias = Literal["compiled", "failed", "none"]


class TargetFacts(msgspec.Struct, frozen=True):
    """What a report says of its target. `kernels_sha256` covers its source and all that it calls.

    `engine_files` has the sha256 of every file of an engine's that was imported, by its module's name: what a
    maintainer holds against their own checkout.
    """

    name: str
    kind: Literal["store", "load"]
    contract: Contract | LoadContract
    form: Form
    kernels_sha256: str
    version: str | None = None
    path: str | None = None
    engine_files: dict[str, str] = {}


class CompileFact(msgspec.Struct, frozen=True):
    """What became of one kernel of a target, compiled for one arch.

    `failed` is the fault `compile-failure`. `none` means that the target launched no kernel of Triton's, or could not
    be called where there is no GPU: nothing is known then, and `error` says why.
    """

    arch: str
    kernel: str
    """The kernel's name; empty for `none`, and where the compiler died before it said which."""
    outcome: Compiled
    error: str = ""
    """Why not, in one line: the compiler's own message, as far as it has one."""
    log: str = ""
    """All that the compiler said, shortened, where it failed."""
    target: str = ""
    """The target directive of the assembly, `sm_89`."""
    casts: dict[str, int] = {}
    """Instructions that round to an 8-bit or a 16-bit float, and how often each occurs."""
    divisions: dict[str, int] = {}
    """Instructions that divide or take a reciprocal, and how often each occurs."""
    fp_fusion: bool | None = None
    """Whether a multiplication and an addition may become one; None where the compiler does not say."""
    launches: int = 1
    """How many launches of the cases came to exactly this."""

    @property
    def fault(self) -> str | None:
        """The fault's name, or None."""
        return "compile-failure" if self.outcome == "failed" else None


class Together(msgspec.Struct, frozen=True):
    """What came of running a few cases that pass several to one process, in shuffled order."""

    cases: int = 0
    """Those that were judged behind others."""
    processes: int = 0
    unlike: tuple[str, ...] = ()
    """The ids of those that ended otherwise than in a process of their own, or with other bytes."""
    not_run: str = ""
    """Why nothing was compared."""
    seconds: float = 0.0


class Report(msgspec.Struct, frozen=True):
    """`report.json`, schema `kvcheck.report/1`. Other tools read it, so fields are added and never removed."""

    schema: str
    kvcheck: str
    created: str
    planned: int
    environment: dict[str, str | int | float | bool | None]
    target: TargetFacts
    arch: str
    execution: Execution
    command: str
    summary: dict[str, int]
    faults: tuple[str, ...]
    unobservable: tuple[str, ...]
    cases: tuple[CaseResult, ...]
    forms: tuple[str, ...] = ()
    """The usual forms of the faults, which a pass speaks of: `fault`, or `fault: which of its forms`."""
    compiled: tuple[CompileFact, ...] = ()
    """What the compiler made of the target's kernels for this arch, found beside the run; empty where not asked."""
    together: tuple[Together, ...] = ()
    """What came of cases run several to one process: one entry, of merged shards one each; empty where not asked."""
    missing_shards: tuple[str, ...] = ()
    """Of merged shards: those that were not there, as `2/3`. How many cases they hold is not known."""
