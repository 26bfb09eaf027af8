"""Forms: the buffers of a cache, and where K's and V's codes and scales lie in them."""

from __future__ import annotations

import msgspec

from kvcheck.contract import Computed, Contract, Form, LoadContract
from kvcheck.schema import ITEMSIZE, Case, Dtype
from kvcheck.views import CACHE_VIEWS, CachePads

Strides = tuple[int, ...]


class Unplaceable(Exception):  # noqa: N818 - not an error of anyone's: the case is `unsupported`, with this sentence
    """A case that cannot be laid out in memory for a target."""


class CacheTensor(msgspec.Struct, frozen=True):
    """Codes or scales in a buffer: byte `offset`, dims and strides in cache coordinates (see `schema.Placed`)."""

    name: str
    offset: int
    dtype: Dtype
    dims: tuple[int, ...]
    strides: Strides


class Buffer(msgspec.Struct, frozen=True):
    """One tensor of the engine's, `size` bytes, and what of K and V lies in it."""

    size: int
    tensors: tuple[CacheTensor, ...]
    kind: str
    """`codes` or `scales`."""


def pages_of(case: Case, form: Form) -> tuple[int, int]:
    """Whether this form is paged: (rows a page in cache coordinates, rows a page of slot counts)."""
    page = form.page if case.page is None else case.page
    return (1, 16) if form.kind in ("slots", "fused") else (page, page)


def buffers(case: Case, contract: Contract | LoadContract, form: Form, slots: int) -> tuple[Buffer, ...]:
    """The cache's buffers in the order in which they are allocated. Raises Unplaceable."""
    page, _ = pages_of(case, form)
    codes = _code_buffers(case, form, slots // page, page)
    scaled = _has_scales(contract)
    if not scaled or form.scales == "none":
        return codes
    if form.scales == "inline":
        _check_inline(contract)
        return tuple(_with_inline(buffer, case, form) for buffer in codes)
    return (*codes, *_sidecars(case, contract, form, slots // page, page))


def _has_scales(contract: Contract | LoadContract) -> bool:
    if isinstance(contract, LoadContract):
        return contract.scale == "token_head"
    return isinstance(contract.scale, Computed)


def _code_buffers(case: Case, form: Form, pages: int, page: int) -> tuple[Buffer, ...]:
    if form.kind in ("packed", "fused"):
        return (_shared_buffer(case, form, pages, page),)
    made = []
    for side, dim, view in (("k", case.head_dim, case.k_cache), ("v", case.dim_v, case.v_cache)):
        width = dim + (4 + form.inline_pad if form.scales == "inline" else 0)
        strides = _strides(form, (page, case.heads, width), CACHE_VIEWS[view])
        tensor = CacheTensor(f"{side}_codes", 0, form.codes, (pages, page, case.heads, dim), (*strides, 1))
        made.append(Buffer(pages * strides[0], (tensor,), "codes"))
    return tuple(made)


def _shared_buffer(case: Case, form: Form, pages: int, page: int) -> Buffer:
    """The one buffer that holds the codes of K and of V."""
    heads, k_dim, v_dim = case.heads, case.head_dim, case.dim_v
    if (case.k_cache, case.v_cache) != ("dense", "dense"):
        raise Unplaceable(
            f"K and V share a {form.kind} cache; it has no k_cache {case.k_cache}, v_cache {case.v_cache}"
        )
    if form.kind == "packed":
        width = k_dim + v_dim
        strides: Strides = (heads * page * width, width, page * width, 1)
        behind = k_dim
    elif k_dim != v_dim:
        raise Unplaceable(f"a fused cache holds one head_dim; the case has {k_dim} for K and {v_dim} for V")
    else:
        strides = (2 * heads * k_dim, 2 * heads * k_dim, k_dim, 1)
        behind = heads * k_dim
    k = CacheTensor("k_codes", 0, form.codes, (pages, page, heads, k_dim), strides)
    v = CacheTensor("v_codes", behind, form.codes, (pages, page, heads, v_dim), strides)
    return Buffer(pages * strides[0], (k, v), "codes")


def _strides(form: Form, sizes: tuple[int, int, int], pads: CachePads) -> tuple[int, int, int]:
    """Strides in cache coordinates (page, in_page, head) for `sizes` (rows a page, heads, elements a head)."""
    page, heads, width = sizes
    if form.kind in ("heads_pages", "packed"):
        row = width + pads.head
        head = page * row + pads.row
        return (heads * head, row, head)
    head = width + pads.head
    row = heads * head + pads.row
    return (page * row, row, head)


def _check_inline(contract: Contract | LoadContract) -> None:
    """Inline scales are one fp32 number behind each head's codes. Raises Unplaceable for scales that are others."""
    rule = contract.scale
    if isinstance(rule, Computed) and (rule.granularity, rule.dtype) != ("token_head", "fp32"):
        raise Unplaceable(
            f"inline scales are one fp32 number a token and head; the contract has {rule.dtype} ones "
            f"per {rule.granularity}"
        )


def _with_inline(buffer: Buffer, case: Case, form: Form) -> Buffer:
    """A codes buffer with an fp32 scale behind each head's codes."""
    (codes,) = buffer.tensors
    dim = codes.dims[3]
    width = dim + 4 + form.inline_pad
    if dim % 4 or width % 4:
        raise Unplaceable(
            f"inline fp32 scales need head_dim and row length in multiples of 4 bytes; head_dim is {dim}, "
            f"the row {width} bytes"
        )
    strides = tuple(stride // 4 for stride in codes.strides[:3])
    scales = CacheTensor(f"{codes.name[0]}_scales", dim, "fp32", (*codes.dims[:2], case.heads), strides)
    return Buffer(buffer.size, (codes, scales), "codes")


def _sidecars(case: Case, contract: Contract | LoadContract, form: Form, pages: int, page: int) -> tuple[Buffer, ...]:
    dtype = _scale_dtype(contract)
    item = ITEMSIZE[dtype]
    made = []
    for side, dim, view in (("k", case.head_dim, case.k_cache), ("v", case.dim_v, case.v_cache)):
        last = _groups(contract, case.heads, dim)
        blocks = last[1] if len(last) == 2 else 1
        strides: Strides = _strides(form, (page, last[0], blocks), CACHE_VIEWS[view].of_scales())
        size = pages * strides[0] * item
        inner = (1,) if len(last) == 2 else ()
        tensor = CacheTensor(f"{side}_scales", 0, dtype, (pages, page, *last), (*strides, *inner))
        made.append(Buffer(size, (tensor,), "scales"))
    return tuple(made)


def _groups(contract: Contract | LoadContract, heads: int, dim: int) -> tuple[int, ...]:
    """The axes of a row's scales: one a head, one a token, or one a block of each head."""
    if not (isinstance(contract, Contract) and isinstance(contract.scale, Computed)):
        return (heads,)
    granularity = contract.scale.granularity
    if granularity == "token_head":
        return (heads,)
    if granularity == "token":
        return (1,)
    if granularity.startswith("block:"):
        size = int(granularity.removeprefix("block:"))
        if dim % size:
            raise Unplaceable(f"head_dim {dim} is not a multiple of the scale's block of {size}")
        return (heads, dim // size)
    raise Unplaceable(f"a scale computed per {granularity} has no place in a cache's rows yet")


def _scale_dtype(contract: Contract | LoadContract) -> Dtype:
    if isinstance(contract, Contract) and isinstance(contract.scale, Computed):
        stored: dict[str, Dtype] = {"fp32": "fp32", "fp16": "fp16", "bf16": "bf16", "ue8m0": "uint8"}
        return stored[contract.scale.dtype]
    return "fp32"
