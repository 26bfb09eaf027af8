"""What `kvcheck encode` asks of the process that runs encoders, and what that answers."""

from __future__ import annotations

import msgspec

from kvcheck.encode.facts import Dtype, EncoderResult

#: kvcheck's own software encoder; Triton's cast; torch's; the model of what Triton's compiler makes of its cast.
SOFTWARE, TRITON, TORCH, MODEL = "software", "triton-cast", "torch-cast", "model"
ENCODERS = (TRITON, SOFTWARE, TORCH, MODEL)


class EncodeRequest(msgspec.Struct, frozen=True):
    """Encoders for one process: built in by name, or all of one target's file."""

    encoders: tuple[str, ...]
    target: str | None
    arch: str
    """The arch to run as."""
    own: str
    """This GPU's arch; empty on the CPU."""
    dtypes: tuple[Dtype, ...]
    exhaustive: bool
    """Every fp32 input on the CPU too. On a GPU it is always every one."""
    names_only: bool = False
    """Run nothing: say which encoders the target's file declares."""


class EncodeAnswer(msgspec.Struct, frozen=True):
    """The results, and the machine's facts; or why there are none, which is the user's mistake."""

    results: tuple[EncoderResult, ...] = ()
    environment: dict[str, str | int | float | bool | None] = {}
    error: str | None = None
    names: tuple[str, ...] = ()
