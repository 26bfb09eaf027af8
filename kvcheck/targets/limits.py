"""What a target declares to take: a case outside is `unsupported`, with the reason."""

from __future__ import annotations

from kvcheck.contract import Accepts, Contract, Form, LoadContract
from kvcheck.schema import Case, Placed, Placement

#: What every allocation begins at a multiple of: a larger alignment is nobody's to promise.
BASE = 512


def outside_limits(
    case: Case, contract: Contract | LoadContract, accepts: Accepts, form: Form, placement: Placement
) -> str | None:
    """Why a case lies outside a target's declared limits, or None."""
    reason = _form(case, form) or _cross(case, contract) or _sizes(case, accepts) or _slots(case, contract)
    if reason is None and isinstance(contract, Contract):
        reason = _views(accepts, placement)
    return reason


def _cross(case: Case, contract: Contract | LoadContract) -> str | None:
    if isinstance(contract, LoadContract) and case.cross != "none":
        return f"a load reads no K and V, so there is none to redraw; the case has cross={case.cross}"
    return None


def _form(case: Case, form: Form) -> str | None:
    if case.form is not None and case.form != form.kind:
        return f"the target's cache is {form.kind!r}; the case asks for {case.form!r}"
    return None


def _sizes(case: Case, accepts: Accepts) -> str | None:
    limits: tuple[tuple[str, object, tuple[object, ...] | None], ...] = (
        ("dtype", case.dtype, accepts.dtypes),
        ("head_dim", case.head_dim, accepts.head_dims),
        ("head_dim_v", case.dim_v, accepts.head_dims),
        ("heads", case.heads, accepts.head_counts),
        ("tokens", case.tokens, accepts.tokens),
        ("slot_dtype", case.slot_dtype, accepts.slot_dtypes),
        ("launch", case.launch, accepts.launches),
    )
    for axis, value, accepted in limits:
        if accepted is not None and value not in accepted:
            return f"takes {axis} {', '.join(map(str, accepted))}; the case has {value}"
    return None


def _slots(case: Case, contract: Contract | LoadContract) -> str | None:
    if not isinstance(contract, Contract) or case.tokens == 0:
        return None
    if case.slots in ("negative_mixed", "all_negative") and contract.negative_slots != "skip":
        return f"the contract says negative_slots={contract.negative_slots!r}; the case has {case.slots}"
    if case.slots == "duplicates" and contract.duplicate_slots == "undefined":
        return "the contract says duplicate_slots='undefined'; the case has duplicates"
    return None


def _views(accepts: Accepts, placement: Placement) -> str | None:
    k, v = placement.get("k"), placement.get("v")
    for tensor in (k, v):
        reason = _view(accepts, tensor)
        if reason is not None:
            return reason
    rows, tokens = k.dims[0], placement.get("slots").dims[0]
    if accepts.equal_lengths and rows != tokens:
        return f"takes as many rows as slots; the case has {rows} rows and {tokens} slots"
    if accepts.same_pitch and k.strides != v.strides:
        return f"takes K and V of equal strides; the case has {k.strides} and {v.strides}"
    return None


def _view(accepts: Accepts, tensor: Placed) -> str | None:
    name = tensor.name.upper()
    _, heads, dim = tensor.dims
    if accepts.inner is not None and tensor.strides[2] != accepts.inner and dim > 1:
        return f"takes inner stride {accepts.inner}; the case has {tensor.strides[2]} in {name}"
    if accepts.head_pitch == "dense" and heads > 1 and tensor.strides[1] != dim * tensor.strides[2]:
        return f"takes heads without gaps; {name} has head pitch {tensor.strides[1]} for head_dim {dim}"
    if accepts.align > BASE:
        return f"takes addresses in multiples of {accepts.align} bytes; allocations begin at multiples of {BASE}"
    if tensor.offset % accepts.align:
        past = tensor.offset % accepts.align
        return f"takes addresses in multiples of {accepts.align} bytes; {name} lies {past} past one"
    return None
