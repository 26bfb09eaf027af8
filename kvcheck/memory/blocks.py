"""Blocks: what is laid out together, one for each tensor that an engine would allocate."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from kvcheck.contract import Accepts, Contract, Form, LoadContract
from kvcheck.draw.inputs import given_rule
from kvcheck.draw.tables import NAMES
from kvcheck.memory.forms import Buffer, Unplaceable, buffers
from kvcheck.memory.sources import Source, sources
from kvcheck.schema import ITEMSIZE, Case, Dtype, Placed

#: Blocks begin at multiples of this, as allocations of torch's CUDA allocator do.
STEP = 512

Fill: TypeAlias = Literal["prefill", "poison", "ordinary", "slot_ids", "zeros"]


class Block(msgspec.Struct, frozen=True):
    """Bytes laid out together: what fills them, and the tensors in them at offsets from the block's begin."""

    size: int
    fill: Fill
    owner: str
    dtype: Dtype
    tensors: tuple[Placed, ...]
    align: int = STEP
    least: int = 1
    """What the block's address is a multiple of even where a layout puts its end or its beginning elsewhere."""


def blocks_of(
    case: Case, contract: Contract | LoadContract, form: Form, accepts: Accepts, slots: int
) -> tuple[Block, ...]:
    """Every block in the order caches, scales, outputs, given scales, slots, tables, K and V."""
    cache = tuple(_cache_block(buffer, case, accepts) for buffer in buffers(case, contract, form, slots))
    made = [*cache, *_output_blocks(case, contract), *_given_blocks(case, contract, form)]
    made.append(_slots_block(case))
    if form.addressed_by == "block_table":
        made += [_plain(name, "int32", _table_dims(name, case.tokens), "slot_ids") for name in NAMES]
    if isinstance(contract, Contract):
        made += [_source_block(source, case, accepts) for source in sources(case, accepts)]
    return tuple(made)


def _cache_block(buffer: Buffer, case: Case, accepts: Accepts) -> Block:
    """A buffer of every layer, one behind the other; the tensors are those of the layer that the case gives."""
    size, begin = case.layers * buffer.size, case.layer * buffer.size
    tensors = tuple(
        Placed(tensor.name, 0, begin + tensor.offset, tensor.dtype, tensor.dims, tensor.strides)
        for tensor in buffer.tensors
    )
    if buffer.kind == "codes" and all(t.dtype != "fp32" for t in tensors):
        return Block(size, "prefill", "cache", "uint8", tensors, case.align, max(case.align, accepts.align))
    return Block(size, "prefill", "cache", "uint8", tensors, STEP, max(ITEMSIZE[t.dtype] for t in tensors))


def _output_blocks(case: Case, contract: Contract | LoadContract) -> list[Block]:
    if isinstance(contract, Contract):
        return []
    made = []
    for name, dim in (("out_k", case.head_dim), ("out_v", case.dim_v)):
        dims = (case.tokens, case.heads, dim)
        made.append(_plain(name, contract.out, dims, "prefill"))
    return made


def _given_blocks(case: Case, contract: Contract | LoadContract, form: Form) -> list[Block]:
    """The given scales: K's and V's apart, or, where K and V are one fused tensor, V's right behind K's."""
    rule = given_rule(contract)
    if rule is None or rule.as_float:
        return []
    dims = (1,) if rule.granularity == "tensor" else (case.heads,)
    k, v = (_plain(name, rule.dtype, dims, "prefill") for name in ("k_scale", "v_scale"))
    if form.kind != "fused":
        return [k, v]
    behind = tuple(msgspec.structs.replace(tensor, offset=k.size) for tensor in v.tensors)
    return [Block(k.size + v.size, "prefill", "k_scale", rule.dtype, (*k.tensors, *behind), least=k.least)]


def _slots_block(case: Case) -> Block:
    """The slot ids, dense or every second of a longer tensor whose other elements are slots not to be stored to."""
    if case.slot_view == "dense":
        return _plain("slots", case.slot_dtype, (case.tokens,), "slot_ids")
    whole = _plain("slots", case.slot_dtype, (2 * case.tokens,), "slot_ids")
    (tensor,) = whole.tensors
    return msgspec.structs.replace(whole, tensors=(msgspec.structs.replace(tensor, dims=(case.tokens,), strides=(2,)),))


def _plain(name: str, dtype: Dtype, dims: tuple[int, ...], fill: Fill) -> Block:
    """A block of one dense tensor."""
    strides, count = [], 1
    for size in reversed(dims):
        strides.append(count)
        count *= size
    tensor = Placed(name, 0, 0, dtype, dims, tuple(reversed(strides)))
    return Block(count * ITEMSIZE[dtype], fill, name, dtype, (tensor,), least=ITEMSIZE[dtype])


def _table_dims(name: str, tokens: int) -> tuple[int, ...]:
    if name == "block_table":
        return (tokens, 1)
    return (tokens + 1,) if name == "kv_indptr" else (tokens,)


def _source_block(source: Source, case: Case, accepts: Accepts) -> Block:
    item = ITEMSIZE[case.dtype]
    if case.align % item:
        raise Unplaceable(f"align {case.align} is less than an element of {case.dtype}")
    tensors = []
    for name, view in source.views:
        dim = case.head_dim if name == "k" else case.dim_v
        dims = (case.rows, case.heads, dim)
        tensors.append(Placed(name, 0, view.offset * item, case.dtype, dims, view.strides))
    least = max(case.align, accepts.align)
    return Block(source.elements * item, "poison", source.owner, case.dtype, tuple(tensors), case.align, least)
