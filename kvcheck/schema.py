"""The frozen data that passes between stages: Case → Placement → Emission → Verdict → Diagnosis → CaseResult → Report.

A stage reads these and writes these, and imports no other stage. Offsets are in bytes, strides in elements of the
tensor's own dtype, unless a name says otherwise. `slot` is a row of the cache, `token` a row of K and V. What a
report holds only grows: a new field has a default, so that older reports still read.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from kvcheck.contract import Contract, Form, LoadContract

Tensor: TypeAlias = Literal["k", "v"]
Dtype: TypeAlias = Literal["bf16", "fp16", "fp32", "uint8", "int8", "float8_e4m3fn", "int32", "int64"]
Execution: TypeAlias = Literal["native", "lowered", "interpreted", "host"]
Compiled: TypeAlias = Literal["compiled", "failed", "none"]
Outcome: TypeAlias = Literal[
    "crash",
    "timeout",
    "mismatch",
    "violation",
    "inconclusive",
    "refused",
    "unsupported",
    "pass",
    "xpass",
    "xfail",
]
Prefill: TypeAlias = Literal["A", "B", "C"]
Poison: TypeAlias = Literal["A", "B"]

ITEMSIZE: dict[Dtype, int] = {
    "bf16": 2,
    "fp16": 2,
    "fp32": 4,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "int32": 4,
    "int64": 8,
}


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One point of a matrix. Its defaults are the axes' defaults; `kvcheck.matrix.ids` names it."""

    k_view: str = "dense"
    v_view: str = "dense"
    k_values: str = "normal"
    v_values: str = "normal"
    k_scale: str = "2^-3"
    v_scale: str = "2^-3"
    tokens: int = 8
    extra_tokens: int = 0
    """Rows that K and V have beyond the slots, as a padded batch has: they are not to be stored."""
    heads: int = 3
    head_dim: int = 128
    head_dim_v: int | None = None
    dtype: Literal["bf16", "fp16", "fp32"] = "bf16"
    slots: str = "ascending"
    slot_dtype: Literal["int32", "int64"] = "int64"
    slot_view: Literal["dense", "every_second"] = "dense"
    k_cache: str = "dense"
    v_cache: str = "dense"
    layout: str = "arena"
    poison: Literal["values", "nan"] = "values"
    order: Literal["kv", "vk"] = "kv"
    """Which of K and V lies first in memory."""
    form: str | None = None
    page: int | None = None
    requests: str = "one"
    cross: str = "none"
    launch: str = "eager"
    align: int = 16
    seed: int = 0

    @property
    def rows(self) -> int:
        """Rows of K and of V: one a token, and the extra ones."""
        return self.tokens + self.extra_tokens

    @property
    def dim_v(self) -> int:
        """V's head dimension: K's unless the case says otherwise."""
        return self.head_dim if self.head_dim_v is None else self.head_dim_v


class Placed(msgspec.Struct, frozen=True):
    """One tensor in memory: `dims` elements of `dtype`, `strides` apart, from byte `offset` of its allocation.

    `name` is `k`, `v`, `slots`, `k_codes`, `v_codes`, `k_scales`, `v_scales`, `k_scale`, `v_scale`, `out_k`, `out_v`
    or the name of a table. Codes and scales are always in cache coordinates: dims `[pages, page, heads, dim]` and
    `[pages, page, heads]`, whatever the form; a form that is not paged has one row a page.
    """

    name: str
    allocation: int
    offset: int
    dtype: Dtype
    dims: tuple[int, ...]
    strides: tuple[int, ...]


class Region(msgspec.Struct, frozen=True):
    """A run of bytes of an allocation and what it holds before a launch, under the tensors that lie in it.

    `prefill`: random bytes that differ between launches. `poison`: values of the owner's dtype, larger than any of
    the owner's own. `ordinary`: values of the owner's dtype and size, the same in every launch. `slot_ids`: valid
    slots that the case does not address. `zeros`: zeros.
    """

    allocation: int
    start: int
    stop: int
    fill: Literal["prefill", "poison", "ordinary", "slot_ids", "zeros"]
    owner: str
    dtype: Dtype


class Placement(msgspec.Struct, frozen=True):
    """Every allocation of a case, every tensor and every other byte in it."""

    layout: str
    allocations: tuple[int, ...]
    """Bytes of each allocation."""
    tensors: tuple[Placed, ...]
    regions: tuple[Region, ...]
    slots: int
    """Rows of the cache, over all pages."""
    independence: bool
    """Whether poison lies where the kernel must not read. Without it independence is not judged."""
    reason: str = ""
    """Why independence is not judged, where it is not."""

    def find(self, name: str) -> Placed | None:
        """The tensor of that name, or None."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)

    def get(self, name: str) -> Placed:
        """The tensor of that name. Raises KeyError where the case has none."""
        tensor = self.find(name)
        if tensor is None:
            raise KeyError(name)
        return tensor


class Change(msgspec.Struct, frozen=True):
    """Bytes of an allocation that a launch left unlike what stood there before it."""

    allocation: int
    offset: int
    data: bytes


class Launch(msgspec.Struct, frozen=True):
    """What one launch did: the addressed rows in full, and every change elsewhere.

    `rows` maps a cache or output tensor's name to its addressed rows, in token order, tokens that are skipped left
    out, each row's bytes in (head, dim) order.
    """

    prefill: Prefill
    poison: Poison
    rows: dict[str, bytes]
    changes: tuple[Change, ...]
    redrawn: Tensor | None = None
    """The tensor whose values are other ones than in the other launches (`cross` cases): the sibling's must stay."""


class Copy(msgspec.Struct, frozen=True):
    """A copy that a target made of a tensor it was given, as torch's dispatcher saw it."""

    tensor: str
    operator: str
    count: int


class Received(msgspec.Struct, frozen=True):
    """A tensor as a kernel launch received it: whose memory it lies in (empty: the target's own), and its strides."""

    kernel: str
    tensor: str
    strides: tuple[int, ...]


class Emission(msgspec.Struct, frozen=True):
    """All that a case's process says of what the target did, unjudged."""

    case: Case
    contract: Contract | LoadContract
    form: Form
    placement: Placement
    addresses: tuple[int, ...]
    """Where each allocation lay, relative to the lowest."""
    launches: tuple[Launch, ...]
    copies: tuple[Copy, ...]
    received: tuple[Received, ...]
    """What reached the kernels of launch 1, where they are Triton's."""
    device: str


class FirstWrong(msgspec.Struct, frozen=True):
    """The first wrong code, in (tensor, token, head, dim) order."""

    tensor: Tensor
    token: int
    head: int
    dim: int
    slot: int
    got: int
    want: int
    x: float | None
    scale: float | None
    launch: int = 1


class FirstScale(msgspec.Struct, frozen=True):
    """The first wrong scale, in (tensor, token, head, block) order.

    `head` is None where one scale serves all heads of a token, `block` where one serves a whole row. `got` and `want`
    are None where they are not finite; `ulps` is their distance in numbers of fp32.
    """

    tensor: Tensor
    token: int
    head: int | None
    block: int | None
    slot: int
    got: float | None
    want: float | None
    ulps: int
    launch: int = 1


class FirstByte(msgspec.Struct, frozen=True):
    """The first byte that a channel condemns: where it lies, what stands there, and what should.

    `tensor` is a name in the placement. `token` is a row of K, V or an output, `slot` a row of the cache; what a byte
    has none of is None. `byte` is which byte of its element it is. Where `outside` is true the byte is of no element:
    it lies in a gap or guard, and `tensor` is the nearest one. `offset` counts bytes from the tensor's first; it is 0
    for stored rows. `want` is None where no one byte is due.
    """

    tensor: str
    got: int
    want: int | None = None
    token: int | None = None
    head: int | None = None
    dim: int | None = None
    slot: int | None = None
    byte: int = 0
    outside: bool = False
    offset: int = 0
    launch: int = 1


class CodesVerdict(msgspec.Struct, frozen=True):
    """How many codes were compared in launch 1, and how many were wrong there and elsewhere."""

    compared: int = 0
    wrong: int = 0
    legal: int = 0
    wrong_given_emitted: int = 0
    wrong_any_launch: int = 0
    k_wrong: int = 0
    v_wrong: int = 0
    first: FirstWrong | None = None
    k_compared: int = 0
    v_compared: int = 0


class ScalesVerdict(msgspec.Struct, frozen=True):
    """How many scales were compared in launch 1; `max_ulp` is the largest distance to the right one, in fp32 ulps."""

    compared: int = 0
    wrong: int = 0
    legal: int = 0
    wrong_any_launch: int = 0
    max_ulp: int = 0
    k_wrong: int = 0
    v_wrong: int = 0
    first: FirstScale | None = None


class WritesVerdict(msgspec.Struct, frozen=True):
    """Bytes that were due and never stored; bytes changed that were not due."""

    lost: int = 0
    stray: int = 0
    k_lost: int = 0
    v_lost: int = 0
    k_stray: int = 0
    v_stray: int = 0
    """Stray bytes in K's and in V's cache, scales or guards; others lie in memory of both or of neither."""
    first_lost: FirstByte | None = None
    first_stray: FirstByte | None = None


class IndependenceVerdict(msgspec.Struct, frozen=True):
    """Stored bytes that changed with memory the kernel must not read. None: not judged, and `reason` says why."""

    differs: int | None = None
    reason: str = ""
    k_differs: int = 0
    v_differs: int = 0
    first: FirstByte | None = None
    """Its `want` is what launch 1 stored there, its `got` what another launch did."""


class DeterminismVerdict(msgspec.Struct, frozen=True):
    """Launches made; positions wrong in some launches only; bytes that changed between equal launches."""

    launches: int = 0
    positions_drift: int = 0
    values_drift: int = 0
    k_drift: int = 0
    v_drift: int = 0
    first: FirstByte | None = None
    """Its `want` is what launch 1 stored there, its `got` what its repetition did."""
    processes: int = 1
    """Processes that ran the case, each all its launches."""


class InputsVerdict(msgspec.Struct, frozen=True):
    """Bytes of K, V, slots, tables or given scales that the target changed, and whose they are."""

    changed: int = 0
    tensors: tuple[str, ...] = ()
    first: FirstByte | None = None
    """Its `want` is what the tensor held before the launch."""


class ProcessVerdict(msgspec.Struct, frozen=True):
    """How the case's process ended. `error` is a traceback or the last of what the process printed."""

    exit: int | None = None
    signal: str | None = None
    error: str | None = None
    outside: bool = False
    """Whether somebody else may have ended the process: `--resume` runs such a case again."""


class Tolerance(msgspec.Struct, frozen=True):
    """What a usual test would have said of one tensor. Never a verdict. None where a value is not finite."""

    absolute: float | None = None
    absolute_pass: bool | None = None
    relative: float | None = None
    relative_pass: bool | None = None


class ToleranceVerdict(msgspec.Struct, frozen=True):
    """The tolerance figures of K and V."""

    k: Tolerance = Tolerance()
    v: Tolerance = Tolerance()


class Digest(msgspec.Struct, frozen=True):
    """Hashes of the addressed rows of launch 1, from the emission alone."""

    codes: str
    scales: str


class Verdict(msgspec.Struct, frozen=True):
    """What the judge says of one emission. `reason` is one line, empty for a pass."""

    outcome: Outcome
    reason: str
    codes: CodesVerdict = CodesVerdict()
    scales: ScalesVerdict = ScalesVerdict()
    writes: WritesVerdict = WritesVerdict()
    independence: IndependenceVerdict = IndependenceVerdict()
    determinism: DeterminismVerdict = DeterminismVerdict()
    inputs: InputsVerdict = InputsVerdict()
    tolerance: ToleranceVerdict = ToleranceVerdict()
    digest: Digest | None = None


class Diagnosis(msgspec.Struct, frozen=True):
    """A fault, the tensor it is in, and how many of the wrong bytes it explains."""

    fault: str
    tensor: str
    explains: int
    of: int
    says: str
    evidence: dict[str, int | float | str | list[int]]


SanitizerKind: TypeAlias = Literal[
    "out-of-bounds",
    "uninitialised",
    "foreign",
    "gap",
    "stray",
    "misaligned",
    "race",
    "barrier",
    "leak",
    "unused",
    "api",
    "assert",
    "other",
]
"""What a sanitizer's record is of. `foreign`: another tensor's memory; `gap`: between the rows of a strided tensor;
`stray`: a store to an element that is not to be stored."""

Side: TypeAlias = Literal["", "inside", "gap", "before", "after"]
"""Where an address lies by a tensor: in an element, between its elements, before its first byte, after its last."""


class SanitizerAccess(msgspec.Struct, frozen=True):
    """One access as one thread made it, as a tool saw it. Unattributed; `SanitizerRecord` is many of them, folded."""

    tool: str
    """`memcheck`, `initcheck`, `racecheck`, `synccheck`, or `shadow` for kvcheck's own check on the CPU."""
    kind: SanitizerKind
    says: str
    """The tool's own words."""
    access: Literal["", "read", "write", "atomic"] = ""
    address: int | None = None
    """The lowest byte; None where the tool names none."""
    size: int = 0
    """Bytes; 0 where the tool names none."""
    kernel: str = ""
    file: str = ""
    line: int = 0
    block: tuple[int, int, int] | None = None
    """The program, for Triton."""
    thread: tuple[int, int, int] | None = None
    space: str = ""
    """`global`, `shared`, `local` …, where the tool says so."""
    count: int = 1
    """Accesses that this one stands for: the tool may fold some itself."""
    host: tuple[str, ...] = ()
    """Host frames, `file:line function`, the launch's first."""


class SanitizerRecord(msgspec.Struct, frozen=True):
    """One cause: what one tool saw at one line of a kernel, on one side of one tensor, all its threads folded."""

    tool: str
    kind: SanitizerKind
    says: str
    access: Literal["", "read", "write", "atomic"] = ""
    size: int = 0
    """Bytes of one access."""
    kernel: str = ""
    file: str = ""
    line: int = 0
    source: str = ""
    """The text of that line, where the file is here."""
    tensor: str = ""
    """Whose memory it is, or is nearest to; a `Placed.name`. Empty: none of the case's."""
    side: Side = ""
    first: int | None = None
    """The nearest access, in bytes: from the tensor's end for `after` (0: the byte that follows it), before its start
    for `before` (1: the byte that precedes it), from its start for `inside` and `gap`. None: no address is known."""
    last: int | None = None
    """The farthest access, counted likewise."""
    pitch: int | None = None
    """The token pitch, in elements, at which every access of the group falls into a row of the tensor, if any does."""
    tokens: tuple[int, ...] = ()
    """The rows that the accesses would be at that pitch."""
    heads: tuple[int, ...] = ()
    threads: str = ""
    """Thread indices, folded: `0-127`, or `0-31,0-1,0`."""
    blocks: str = ""
    """Block indices (Triton's programs), folded likewise."""
    count: int = 1
    """Accesses in all."""
    host: tuple[str, ...] = ()
    made: str = ""
    """The line that computed the pointer, `file:line function`, where it is another and the tool can tell."""
    through: str = ""
    """The kernel's argument that the pointer came from, where the tool can tell."""
    memory: str = ""
    """Whose memory was hit, where it is another tensor's than `tensor`, which the pointer is of."""


class SanitizerRun(msgspec.Struct, frozen=True):
    """One case under one tool. `clean` only where the tool was seen to attach, to finish, and to report nothing."""

    tool: str
    memory: str
    """How the tensors lay: `pooled`, `exact`, `fence`; the case's own layout for `shadow`."""
    way: Literal["replay", "whole", "interpreted"]
    state: Literal["clean", "records", "inconclusive"]
    reason: str = ""
    """Why it is inconclusive."""
    records: tuple[SanitizerRecord, ...] = ()
    counted: int = 0
    """Errors by the tool's own count."""
    seconds: float = 0.0
    agreement: str = ""
    """How the records and the codes' diagnosis stand to each other, in one sentence."""
    unknown: tuple[str, ...] = ()
    """Parts of the tool's output that kvcheck does not know, as they stood."""
    left_out: tuple[str, ...] = ()
    """Kernels of torch's own of which the tool has records that are not among these, and how many: not under test."""


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
