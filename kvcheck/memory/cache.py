"""The cache that a target is handed: views of placed memory in the engine's own shapes."""

from __future__ import annotations

import numpy as np
import torch

from kvcheck.addresses import layer_pitch
from kvcheck.api import Cache, Output, Side, Tables
from kvcheck.contract import Contract, Form, LoadContract
from kvcheck.draw.inputs import Inputs, given_rule
from kvcheck.draw.tables import NAMES
from kvcheck.memory.arena import Memory
from kvcheck.schema import ITEMSIZE, Case, Placed, Placement, Tensor


def build_cache(
    memory: Memory, placement: Placement, case: Case, contract: Contract | LoadContract, form: Form, inputs: Inputs
) -> Cache:
    """Every view that this form has of the cache in `memory`."""
    page = placement.get("k_codes").dims[1]
    return Cache(
        slots=placement.slots,
        page=page,
        heads=case.heads,
        head_dim=case.head_dim,
        head_dim_v=case.dim_v,
        k=_side(memory, placement, case, contract, form, "k", inputs),
        v=_side(memory, placement, case, contract, form, "v", inputs),
        fused_pages=_fused(memory, placement, case, form),
        fused_given=_fused_given(memory, placement, form),
        block_tables=_tables(memory, placement) if form.addressed_by == "block_table" else None,
        layers=case.layers,
        layer=case.layer,
    )


def build_output(memory: Memory, placement: Placement) -> Output:
    """Where a load target writes."""
    return Output(k=memory.tensor(placement.get("out_k")), v=memory.tensor(placement.get("out_v")))


def _side(
    memory: Memory,
    placement: Placement,
    case: Case,
    contract: Contract | LoadContract,
    form: Form,
    side: Tensor,
    inputs: Inputs,
) -> Side:
    views: dict[str, torch.Tensor] = {}
    missing: dict[str, str] = {}
    codes = placement.get(f"{side}_codes")
    _logical(memory, codes, "codes", views, missing)
    views["pages"] = _engine_shape(memory, codes, form)
    views["layers"] = _layers(memory, codes, form, case)
    scales = placement.find(f"{side}_scales")
    if scales is None:
        words = "this target's contract and form have no scales in the cache"
        missing |= dict.fromkeys(("scales", "scale_pages", "scale_layers"), words)
    else:
        _logical(memory, scales, "scales", views, missing)
        views["scale_pages"] = _engine_shape(memory, scales, form)
        views["scale_layers"] = _layers(memory, scales, form, case)
    if form.scales == "inline":
        views["rows"] = _inline_rows(memory, codes, form)
    else:
        missing["rows"] = "the form does not say scales='inline'"
    given = placement.find(f"{side}_scale")
    if given is None:
        missing["scale"] = "the contract does not say Given(...), or says as_float (then ask for scale_value)"
    else:
        views["scale"] = memory.tensor(given)
    return Side(side, views, missing, _as_float(contract, inputs.k_scale if side == "k" else inputs.v_scale))


def _as_float(
    contract: Contract | LoadContract, scale: np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None
) -> float | None:
    rule = given_rule(contract)
    if rule is not None and rule.as_float:
        assert scale is not None
        return float(scale.reshape(-1)[0])
    return None


def _logical(memory: Memory, placed: Placed, key: str, views: dict[str, torch.Tensor], missing: dict[str, str]) -> None:
    """`[slots, heads(, dim)]`, where pages follow each other as rows in a page do."""
    pages, page = placed.dims[:2]
    if page == 1:
        row = placed.strides[0]
    elif pages == 1 or placed.strides[0] == page * placed.strides[1]:
        row = placed.strides[1]
    else:
        missing[key] = (
            f"no one stride leads from slot to slot here (a page is {placed.strides[0]} elements, "
            f"a row in it {placed.strides[1]}); use .pages"
        )
        return
    views[key] = memory.strided(placed, (pages * page, *placed.dims[2:]), (row, *placed.strides[2:]))


def _engine_shape(memory: Memory, placed: Placed, form: Form) -> torch.Tensor:
    """`slots`, `fused`: `[slots, heads, …]`; `pages`: `[pages, page, heads, …]`; else `[pages, heads, page, …]`."""
    d, s = placed.dims, placed.strides
    if form.kind in ("slots", "fused"):
        return memory.strided(placed, (d[0], *d[2:]), (s[0], *s[2:]))
    if form.kind == "pages":
        return memory.tensor(placed)
    return memory.strided(placed, (d[0], d[2], d[1], *d[3:]), (s[0], s[2], s[1], *s[3:]))


def _layers(memory: Memory, placed: Placed, form: Form, case: Case) -> torch.Tensor:
    """The engine's shape of every layer, `[layers, …]`."""
    one = _engine_shape(memory, placed, form)
    pitch = layer_pitch(placed)
    begin = placed.offset - case.layer * pitch * ITEMSIZE[placed.dtype]
    return memory.strided(placed, (case.layers, *one.shape), (pitch, *one.stride()), offset=begin)


def _inline_rows(memory: Memory, codes: Placed, form: Form) -> torch.Tensor:
    """Codes with the scale and the pad behind them, as bytes, in the engine's shape."""
    width = codes.dims[3] + 4 + form.inline_pad
    whole = Placed(codes.name, codes.allocation, codes.offset, "uint8", (*codes.dims[:3], width), codes.strides)
    return _engine_shape(memory, whole, form)


def _fused(memory: Memory, placement: Placement, case: Case, form: Form) -> torch.Tensor | None:
    codes = placement.get("k_codes")
    d, s = codes.dims, codes.strides
    if form.kind == "packed":
        return memory.strided(codes, (d[0], d[2], d[1], case.head_dim + case.dim_v), (s[0], s[2], s[1], 1))
    if form.kind == "fused":
        return memory.strided(codes, (d[0], 2 * d[2], d[3]), (s[0], s[2], 1))
    return None


def _fused_given(memory: Memory, placement: Placement, form: Form) -> torch.Tensor | None:
    """K's given scales, then V's, as one tensor."""
    given = placement.find("k_scale")
    if form.kind != "fused" or given is None:
        return None
    return memory.strided(given, (2 * given.dims[0],), (1,))


def _tables(memory: Memory, placement: Placement) -> Tables:
    return Tables(**{name: memory.tensor(placement.get(name)) for name in NAMES})
