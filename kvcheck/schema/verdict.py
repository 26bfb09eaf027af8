"""What is wrong with an emission, a struct for each channel. `judge/` makes verdicts; all counts default to none."""

from __future__ import annotations

import msgspec

from kvcheck.schema.names import Outcome, Tensor


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
