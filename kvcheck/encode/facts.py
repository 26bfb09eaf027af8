"""What a sweep of an encoder found, as frozen data: what `encode.json` holds."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from kvcheck.encode.kinds import Kind

Outcome: TypeAlias = Literal["pass", "mismatch", "crash", "timeout", "unsupported", "inconclusive"]
Dtype: TypeAlias = Literal["fp32", "bf16", "fp16"]
Coverage: TypeAlias = Literal["every", "sample", "none"]

SCHEMA = "kvcheck.encode/1"


class Example(msgspec.Struct, frozen=True):
    """One input whose code is another than the right one."""

    x: str
    """The value, as the shortest decimal that is this number in its dtype."""
    bits: int
    """Its bit pattern in its own dtype."""
    got: int
    want: int


class Difference(msgspec.Struct, frozen=True):
    """All differences of one kind, and the smallest of them by magnitude."""

    kind: Kind
    count: int
    examples: tuple[Example, ...]


class Named(msgspec.Struct, frozen=True):
    """What explains differences: a fault by its slug; None where the cause has no name, or is a policy."""

    fault: str | None
    says: str
    explains: int
    """How many differing inputs it gives the code of, out of `of`."""
    of: int


class Declared(msgspec.Struct, frozen=True):
    """What the encoder is held against."""

    format: str
    rounding: str
    overflow: str
    nan: str
    negative_zero: str


class EncoderResult(msgspec.Struct, frozen=True, kw_only=True):
    """One encoder, one dtype, one arch."""

    encoder: str
    arch: str
    """Empty where no arch has a say."""
    execution: str
    """`native`, `lowered`, `interpreted` or `host`."""
    device: str
    dtype: Dtype
    declared: Declared
    outcome: Outcome
    reason: str = ""
    coverage: Coverage = "none"
    """`every` input there is, or a `sample` of them, which proves nothing of the others."""
    inputs: int = 0
    possible: int = 0
    """How many inputs the dtype has: 2^32 or 2^16."""
    differ: int = 0
    differences: tuple[Difference, ...] = ()
    faults: tuple[Named, ...] = ()
    behaves: str = ""
    """What the encoder does, in words, as far as it was found from its codes."""
    reference: str = ""
    """What the codes were compared with, and how that was proved here."""
    digests: int | None = None
    """Of 256 blocks of 2^24 codes, those whose digest is the kept one; None where digests were not taken."""
    seconds: float = 0.0


class EncodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """All of one run."""

    schema: str = SCHEMA
    kvcheck: str
    created: str
    command: str
    environment: dict[str, str | int | float | bool | None]
    results: tuple[EncoderResult, ...]
