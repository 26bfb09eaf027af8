"""The words and number types that every stage shares, as `Literal`s: a misspelt one is a type error."""

from __future__ import annotations

from typing import Literal, TypeAlias

Tensor: TypeAlias = Literal["k", "v"]
"""Which side of a cache, and of its inputs."""

Dtype: TypeAlias = Literal["bf16", "fp16", "fp32", "uint8", "int8", "float8_e4m3fn", "int32", "int64"]
"""What the elements of a tensor in memory are. Codes are of a one-byte type: whichever the form says."""

Execution: TypeAlias = Literal["native", "lowered", "interpreted", "host"]
"""Whose machine code ran: this GPU's, another arch's on this GPU, Triton's interpreter's, or torch's on the CPU."""

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
"""How a case ended, worst first: a case takes the first that applies. The last two are of `--expect-declared`."""

Prefill: TypeAlias = Literal["A", "B", "C"]
"""Which random bytes the cache held before a launch. They differ from each other in every byte."""

Poison: TypeAlias = Literal["A", "B"]
"""Which values lay where the kernel must not read."""

#: Bytes of one element.
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
