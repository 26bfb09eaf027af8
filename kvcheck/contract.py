"""What a target promises: its scale rule, its arithmetic, the format of its codes, and what it takes.

All of it is frozen data. Users import these names from `kvcheck`; nothing here runs a kernel.
"""

from __future__ import annotations

import math
import re
from typing import Literal, TypeAlias

import msgspec

from kvcheck.errors import ContractError
from kvcheck.fields import check_fields

Launches: TypeAlias = Literal["eager", "graph"]
"""How a target is started: called for each launch, or called once while a CUDA graph is captured, and replayed."""

Derive: TypeAlias = Literal[
    "divide", "divide_approx", "multiply_reciprocal", "multiply_approx_reciprocal", "power_of_two"
]
"""How two numbers are divided: `divide` is the IEEE quotient; the `approx` forms declare an error in ulps."""

#: The error each arithmetic declares against its own exact form, in ulps of fp32.
DECLARED_ULPS: dict[Derive, int] = {
    "divide": 0,
    "divide_approx": 2,
    "multiply_reciprocal": 0,
    "multiply_approx_reciprocal": 3,
    "power_of_two": 0,
}

_GRANULARITY = re.compile(r"(token_head|token|head|tensor|block:[1-9][0-9]*)\Z")


class Computed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="computed"):
    """The kernel computes the scale from the data: `derive(max(amax, eps), maximum)`, or `derive(amax + eps, maximum)`.

    `granularity` is the population of one amax: `token_head`, `token`, `head`, `tensor` or `block:N` (N elements of
    a row). `eps_on` says whether `eps` is that of the amax or of the scale, and `eps_as` whether it is the least value
    there or added to each. `dtype` is the type the scale is rounded to
    before it is used and stored. `nan` says whether a NaN in the population is ignored or makes the scale NaN.
    `zero_row` overrides the scale of a population whose amax is zero. `ulps` overrides the error `derive` declares.
    """

    granularity: str = "token_head"
    maximum: float = 448.0
    eps: float = 0.0
    eps_on: Literal["amax", "scale"] = "amax"
    eps_as: Literal["least", "added"] = "least"
    derive: Derive = "divide"
    dtype: Literal["fp32", "fp16", "bf16", "ue8m0"] = "fp32"
    nan: Literal["ignore", "propagate"] = "ignore"
    zero_row: float | None = None
    ulps: int | None = None

    def __post_init__(self) -> None:
        """Refuse values that no kernel can have. Raises ContractError."""
        check_fields(self)
        if not _GRANULARITY.match(self.granularity):
            raise ContractError(
                f"Computed.granularity is {self.granularity!r}; expected token_head, token, head, tensor or block:N"
            )
        if not 0 < self.maximum < math.inf:
            raise ContractError(f"Computed.maximum is {self.maximum!r}; expected a finite number above zero")
        if not 0 <= self.eps < math.inf:
            raise ContractError(f"Computed.eps is {self.eps!r}; expected zero or more, and finite")
        if self.zero_row is not None and not math.isfinite(self.zero_row):
            raise ContractError(f"Computed.zero_row is {self.zero_row!r}; expected a finite number or None")
        _check_ulps(self)

    @property
    def declared_ulps(self) -> int:
        """The error of the scale that this rule allows, in ulps of fp32."""
        return DECLARED_ULPS[self.derive] if self.ulps is None else self.ulps


class Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="given"):
    """The scale is an input: kvcheck draws it and hands it over as `cache.k.scale` and `cache.v.scale`.

    `direction` says whether the kernel divides by it or multiplies with it. K's and V's differ unless `shared`.
    `as_float` hands over a Python float instead of a device tensor (`cache.k.scale_value`).
    """

    granularity: Literal["tensor", "head"] = "tensor"
    direction: Literal["divisor", "multiplier"] = "divisor"
    shared: bool = False
    dtype: Literal["fp32", "fp16", "bf16"] = "fp32"
    as_float: bool = False

    def __post_init__(self) -> None:
        """Refuse one float for many scales. Raises ContractError."""
        check_fields(self)
        if self.as_float and self.granularity != "tensor":
            raise ContractError(f"Given.as_float hands over one float a tensor; granularity is {self.granularity!r}")


class Contract(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="store"):
    """What a store target promises about every byte it writes.

    `format` is the number format of the codes. `scale` is `Computed`, `Given`, or None (stored as it is). `apply` is
    the arithmetic between a value and its scale, in `compute`. What is `undefined` is not compared, and slots that
    are `undefined` make a case `unsupported`. `minimum` is the least code value where it is not minus the greatest.
    """

    scale: Computed | Given | None
    format: Literal["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "int8"] = "e4m3fn"
    apply: Derive = "divide"
    ulps: int | None = None
    rounding: Literal["rne", "rtz", "half_away"] = "rne"
    minimum: float | None = None
    compute: Literal["fp32", "fp16", "bf16"] = "fp32"
    overflow: Literal["saturate", "nan"] = "saturate"
    nan: Literal["canonical", "keep_sign", "undefined"] = "canonical"
    negative_zero: Literal["keep", "drop"] = "keep"
    negative_slots: Literal["skip", "refuse", "undefined"] = "skip"
    duplicate_slots: Literal["any_row", "undefined"] = "any_row"

    def __post_init__(self) -> None:
        """Refuse what no kernel can promise. Raises ContractError."""
        check_fields(self)
        _check_ulps(self)

    @property
    def declared_ulps(self) -> int:
        """The error of a scaled value that `apply` allows, in ulps of fp32. Zero where nothing is applied."""
        if self.scale is None:
            return 0
        return DECLARED_ULPS[self.apply] if self.ulps is None else self.ulps


class LoadContract(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="load"):
    """What a load target promises: `out = apply(decode(code), scale)` in `compute`, rounded to `out`."""

    apply: Literal["code_times_scale"] = "code_times_scale"
    scale: Literal["token_head", "tensor", "head"] | None = "token_head"
    format: Literal["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "int8"] = "e4m3fn"
    compute: Literal["fp32"] = "fp32"
    out: Literal["bf16", "fp16", "fp32"] = "bf16"
    nan: Literal["nan", "undefined"] = "nan"

    def __post_init__(self) -> None:
        """Refuse values of other types. Raises ContractError."""
        check_fields(self)


class Accepts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The inputs a target declares to take. None takes any. Cases outside are `unsupported`, with the reason.

    `head_pitch="dense"` takes only rows whose heads follow each other without a gap; `inner=1` only a unit stride
    between elements; `align` only base addresses that are multiples of so many bytes; `same_pitch` only K and V with
    equal strides; `equal_lengths` only K and V with as many rows as there are slots; `source="fused_kv"` only K and V
    that are one tensor of K heads, then V heads; `launches=("eager",)` no capture in a CUDA graph.
    """

    dtypes: tuple[Literal["bf16", "fp16", "fp32"], ...] | None = None
    head_dims: tuple[int, ...] | None = None
    head_counts: tuple[int, ...] | None = None
    tokens: tuple[int, ...] | None = None
    slot_dtypes: tuple[Literal["int32", "int64"], ...] | None = None
    head_pitch: Literal["any", "dense"] = "any"
    inner: Literal[1] | None = None
    align: int = 1
    same_pitch: bool = False
    equal_lengths: bool = False
    source: Literal["k_v", "fused_kv"] = "k_v"
    launches: tuple[Launches, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse an alignment that no address has, and what leaves no case at all. Raises ContractError."""
        check_fields(self)
        if self.align < 1:
            raise ContractError(f"Accepts.align is {self.align}; expected 1 or more, in bytes")
        for name in self.__struct_fields__:
            if getattr(self, name) == ():
                raise ContractError(f"Accepts.{name} is (), which takes nothing; expected values, or None for any")


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a cache is arranged in memory.

    `slots` is `[slots, heads, dim]`; `pages` `[pages, page, heads, dim]`; `heads_pages` `[pages, heads, page, dim]`;
    `packed` `[pages, heads, page, dim_k + dim_v]`, K and V split off the last axis; `fused` `[slots, heads_k +
    heads_v, dim]`. Scales lie in a tensor of their own (`sidecar`), behind each head's codes as fp32 (`inline`,
    followed by `inline_pad` bytes), or nowhere (`none`).
    """

    kind: Literal["slots", "pages", "heads_pages", "packed", "fused"] = "slots"
    page: int = 16
    codes: Literal["uint8", "float8_e4m3fn", "int8"] = "uint8"
    scales: Literal["sidecar", "inline", "none"] = "sidecar"
    addressed_by: Literal["slots", "block_table"] = "slots"
    inline_pad: int = 0

    def __post_init__(self) -> None:
        """Refuse a page or a pad that cannot be laid out. Raises ContractError."""
        check_fields(self)
        if self.page < 1:
            raise ContractError(f"Form.page is {self.page}; expected 1 or more")
        if self.inline_pad < 0:
            raise ContractError(f"Form.inline_pad is {self.inline_pad}; expected 0 or more")
        if self.inline_pad and self.scales != "inline":
            raise ContractError(
                f"Form.inline_pad is {self.inline_pad} and scales {self.scales!r}; expected scales='inline'"
            )
        if self.scales == "inline" and self.kind in ("packed", "fused"):
            raise ContractError(
                f"Form.scales is 'inline' in a {self.kind!r} cache; expected slots, pages or heads_pages"
            )


class EncoderContract(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an encoder target promises about the code of every input.

    The words are `Contract`'s. `overflow` and `nan` may be `undefined`: inputs that round beyond the largest value, or
    are NaN, are then not compared. `dtypes` are those of the inputs that it takes.
    """

    format: Literal["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "int8"] = "e4m3fn"
    rounding: Literal["rne", "rtz", "half_away"] = "rne"
    overflow: Literal["saturate", "nan", "undefined"] = "saturate"
    nan: Literal["canonical", "keep_sign", "undefined"] = "canonical"
    negative_zero: Literal["keep", "drop"] = "keep"
    dtypes: tuple[Literal["fp32", "bf16", "fp16"], ...] = ("fp32",)

    def __post_init__(self) -> None:
        """Refuse an encoder of nothing. Raises ContractError."""
        check_fields(self)
        if not self.dtypes or len(set(self.dtypes)) < len(self.dtypes):
            raise ContractError(
                f"EncoderContract.dtypes is {self.dtypes!r}; expected one or more of fp32, bf16, fp16, each once"
            )


def _check_ulps(declared: Computed | Contract) -> None:
    """Raise ContractError for a declared error that is none."""
    if declared.ulps is not None and declared.ulps < 0:
        kind = type(declared).__name__
        raise ContractError(f"{kind}.ulps is {declared.ulps}; expected 0 or more, or None")
