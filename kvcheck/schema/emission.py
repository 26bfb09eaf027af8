"""What a target did, as bytes, unjudged: `run/` makes an emission, `judge/` and `diagnose/` read it."""

from __future__ import annotations

import msgspec

from kvcheck.contract import Contract, Form, LoadContract
from kvcheck.schema.case import Case
from kvcheck.schema.names import Poison, Prefill, Tensor
from kvcheck.schema.placement import Placement


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
    mapped: tuple[tuple[int, int], ...] = ()
    """Of layouts with fences: the first mapped byte around each allocation and the one behind the last, like
    `addresses`. Nothing is mapped beyond them."""
    called: tuple[str, ...] | None = None
    """Of a case whose launches are replays of a graph: the tensors that a target fills in which the call before the
    capture, which is no replay, changed a byte. None of other cases."""
