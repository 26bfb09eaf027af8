"""Accesses of compute-sanitizer as causes: whose memory, and the row that it would be."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from kvcheck.sanitizer.attribute import FAR, attribute
from kvcheck.sanitizer.replay.plan import Scene
from kvcheck.schema import SanitizerAccess, SanitizerKind, SanitizerRecord
from sanitizer.replay.test_plan import SEED, scene

TEXT = "Uninitialized __global__ memory read of size 2 bytes"


def access(
    address: int | None, block: int, kind: SanitizerKind = "uninitialised", **changes: object
) -> SanitizerAccess:
    """One lane of the load of the store."""
    base: dict[str, object] = {
        "tool": "initcheck", "kind": kind, "says": TEXT, "access": "read", "address": address, "size": 2,
        "kernel": "store_kernel", "file": "/kernels/store.py", "line": 58, "block": (block, 0, 0),
        "thread": (block, 0, 0),
    }  # fmt: skip
    return SanitizerAccess(**{**base, **changes})  # type: ignore[arg-type]


def bases(where: Scene) -> tuple[int, ...]:
    """Allocations far apart, as cuMemAlloc gives them for large ones."""
    return tuple(0x7F0000000000 + index * (1 << 24) for index in range(len(where.placement.allocations)))


def found(where: Scene, some: list[SanitizerAccess]) -> tuple[SanitizerRecord, ...]:
    """What comes of them."""
    return attribute(some, where.placement, bases(where), where.rows)


def shared_pitch(where: Scene, **changes: object) -> list[SanitizerAccess]:
    """V read with K's pitch: what lies past V's end."""
    v = where.placement.get("v")
    start = bases(where)[v.allocation] + v.offset
    return [
        access(start + 2 * (token * 1152 + each), token, **changes)  # type: ignore[arg-type]
        for token in range(3, 8)
        for each in range(384)
    ]


def test_the_case_that_kvcheck_grew_from() -> None:
    """V's end, the pitch, the tokens, programs and threads folded: in the slab, and with an allocation a tensor."""
    sentence = "reads 768 to 10 750 bytes past the end of V (tokens 3-7 at pitch 1152, K's; V's is 384)"
    (record,) = found(scene(SEED, "pooled"), shared_pitch(scene(SEED, "pooled")))
    assert record.says == f"{sentence}; nothing has stored there"
    assert (record.tool, record.kind, record.tensor, record.side) == ("initcheck", "uninitialised", "v", "after")
    assert (record.pitch, record.tokens, record.blocks, record.threads) == (1152, (3, 4, 5, 6, 7), "3-7", "3-7")
    assert (record.count, record.line, record.kernel) == (1920, 58, "store_kernel")
    where = scene(SEED, "exact")
    (record,) = found(where, shared_pitch(where, tool="memcheck", kind="out-of-bounds"))
    assert record.says == f"{sentence}, outside every allocation; no memory is allocated there"
    assert (record.tool, record.kind, record.tensor) == ("memcheck", "out-of-bounds", "v")


def test_the_pitch_outweighs_what_is_near() -> None:
    """Right behind the slots an access is theirs; where a pitch makes it each program's own row of K, it is K's."""
    where = scene(msgspec.structs.replace(SEED, k_view="dense", v_view="qkv"), "exact")
    slots = where.placement.get("slots")
    start = bases(where)[slots.allocation] + slots.offset + 64
    (record,) = found(where, [access(start + each, 0, "out-of-bounds") for each in range(0, 16, 2)])
    assert (record.tensor, record.side, record.first) == ("slots", "after", 0)
    (record,) = found(where, [one for one in shared_pitch_of_k(where) if one.block and one.block[0] > 2])
    assert (record.tensor, record.pitch) == ("k", 1152)


def shared_pitch_of_k(where: Scene) -> list[SanitizerAccess]:
    """K read with V's pitch."""
    k = where.placement.get("k")
    start = bases(where)[k.allocation] + k.offset
    return [access(start + 2 * (token * 1152 + each), token) for token in range(8) for each in range(384)]


def test_elements_that_nothing_has_stored() -> None:
    """The tensor whose elements they are, its rows and heads."""
    where = scene(SEED, "pooled")
    scales = where.placement.get("k_scales")
    start = bases(where)[0] + scales.offset
    slots = where.rows["k_scales"]
    reads = [access(start + 4 * (3 * int(slot) + 1), 0, size=4) for slot in slots[:2]]
    (record,) = found(where, reads)
    assert (record.tensor, record.side, record.heads) == ("k_scales", "inside", (1,))
    assert record.says.startswith("reads what nothing has stored: K's scales, slots ")


def test_gaps_between_rows() -> None:
    """Between K's rows in the qkv tensor lies what is Q's and V's."""
    where = scene(SEED, "pooled")
    k = where.placement.get("k")
    (record,) = found(where, [access(bases(where)[0] + k.offset + 2 * 500, 0)])
    assert (record.tensor, record.side) == ("k", "gap")
    assert "between the rows of K" in record.says


def test_misaligned_accesses_are_said_so() -> None:
    """Of an element, at no multiple of the access's size."""
    where = scene(SEED, "exact")
    v = where.placement.get("v")
    start = bases(where)[v.allocation] + v.offset
    (record,) = found(where, [access(start + 2, 0, "misaligned", tool="memcheck", size=4)])
    assert record.says == "reads V, token 0, head 0, 4 bytes at no multiple of 4"


def test_memory_of_nobodys() -> None:
    """Far from every tensor, nearer to memory of the target's own, or without an address: the tool's own words."""
    where = scene(SEED, "exact")
    far = access(bases(where)[-1] + 2 * FAR, 0, says="wild")
    own = access(bases(where)[-1] + (1 << 20) + 4, 0, says="own", line=60)
    none = access(None, 0, "race", says="Race reported", line=61)
    some = attribute(
        [far, own, none], where.placement, bases(where), where.rows,
        [(bases(where)[-1] + (1 << 20), bases(where)[-1] + (1 << 20) + 4)],
    )  # fmt: skip
    assert [(record.says, record.tensor) for record in some] == [("wild", ""), ("own", ""), ("Race reported", "")]


def test_without_addresses_of_allocations() -> None:
    """Where the launch was never made nobody knows where the tensors lay."""
    where = scene(SEED, "exact")
    (record,) = attribute([access(0x7F00, 2)], where.placement, (), where.rows)
    assert (record.says, record.tensor, record.blocks) == (TEXT, "", "2")


def test_causes_are_apart_by_line_and_kind() -> None:
    """Two lines, two records, by line."""
    where = scene(SEED, "pooled")
    reads = [access(address.address, 3, line=line) for line in (70, 58) for address in shared_pitch(where)[:4]]
    assert [record.line for record in found(where, reads)] == [58, 70]
    assert np.unique([record.count for record in found(where, reads)]).tolist() == [4]


def test_a_row_that_no_kernel_has_stored() -> None:
    """Read back by a copy of the host's: no kernel, no program, and a sentence with a subject of its own."""
    where = scene(SEED, "pooled")
    codes = where.placement.get("k_codes")
    at = bases(where)[codes.allocation] + codes.offset + 6 * 384
    copied = SanitizerAccess(
        "initcheck", "uninitialised", "Host API uninitialized memory access", "read", address=at, size=384
    )
    (record,) = found(where, [copied])
    assert record.says == "a copy by the host reads what nothing has stored: K's codes, slot 6, head 0"
    assert (record.tensor, record.kernel, record.blocks, record.threads) == ("k_codes", "", "", "")


def test_shared_memory_is_nobodys() -> None:
    """Its addresses begin at 0 in every program: kept in the tool's own words."""
    where = scene(SEED, "pooled")
    at = bases(where)[where.placement.get("v").allocation]
    (record,) = found(where, [access(at, 0, "race", space="shared", says="Potential RAW hazard detected")])
    assert (record.says, record.tensor) == ("Potential RAW hazard detected", "")


@pytest.mark.parametrize(("tool", "kind"), [("memcheck", "out-of-bounds"), ("initcheck", "uninitialised")])
def test_an_access_that_only_ends_outside(tool: str, kind: SanitizerKind) -> None:
    """Sixteen bytes from the last slot's eight on are past the end; from the last but one they are not."""
    where = scene(msgspec.structs.replace(SEED, tokens=5), "exact")
    slots = where.placement.get("slots")
    at = bases(where)[slots.allocation] + slots.offset
    (record,) = found(where, [access(at + 32, 0, kind, tool=tool, size=16)])
    assert record.says.startswith("reads right past the end of the slot ids")
    assert (record.tensor, record.side, record.first, record.last) == ("slots", "after", 0, 0)
    (record,) = found(where, [access(at + 24, 0, size=16)])
    assert (record.says, record.side) == ("reads what nothing has stored: the slot ids, element 3", "inside")
