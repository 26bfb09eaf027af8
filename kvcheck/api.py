"""What users import to put a kernel of theirs under test: decorators, and the cache that a target is handed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kvcheck.contract import Accepts, Contract, EncoderContract, Form, LoadContract
from kvcheck.declared import check_beside, check_function, checked, checked_name, refusals
from kvcheck.errors import Refused

if TYPE_CHECKING:
    from torch import Tensor

    StoreFunction: TypeAlias = Callable[[Tensor, Tensor, Tensor, "Cache"], None]
    LoadFunction: TypeAlias = Callable[[Tensor, "Cache", "Output"], None]
    EncoderFunction: TypeAlias = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True)
class Side:
    """K's or V's half of a cache. Every tensor is a view of memory that kvcheck owns; a target writes through it.

    Codes are of the form's dtype, scales of the contract's. A view that this form does not have raises `LookupError`
    with a sentence when it is asked for.
    """

    name: str
    """`k` or `v`."""
    views: dict[str, Tensor]
    """What there is, by the names below."""
    missing: dict[str, str]
    """Why there is no other, likewise."""
    value: float | None = None
    """What `scale_value` is; None where the contract hands over none."""

    def _view(self, key: str) -> Tensor:
        if key not in self.views:
            raise LookupError(f"cache.{self.name}.{key}: {self.missing.get(key, 'this cache has no such tensor')}")
        return self.views[key]

    @property
    def codes(self) -> Tensor:
        """The codes as `[slots, heads, head_dim]`, where one strided view can be that. Raises LookupError elsewhere."""
        return self._view("codes")

    @property
    def scales(self) -> Tensor:
        """The scales that the target computes, where one strided view can be that. Raises LookupError elsewhere.

        `[slots, heads]`, or with one scale a token `[slots, 1]`, or one a block `[slots, heads, blocks]`.
        ue8m0 is uint8.
        """
        return self._view("scales")

    @property
    def pages(self) -> Tensor:
        """The codes in the engine's own shape, as `Form` says it."""
        return self._view("pages")

    @property
    def scale_pages(self) -> Tensor:
        """The computed scales in the engine's own shape: `pages` without its last axis. Raises LookupError for none.

        With one scale a token 1 stands for its heads; with one a block the last axis is blocks.
        """
        return self._view("scale_pages")

    @property
    def layers(self) -> Tensor:
        """`pages` of every layer, `[layers, …]`: `layers[cache.layer]` is `pages`."""
        return self._view("layers")

    @property
    def scale_layers(self) -> Tensor:
        """`scale_pages` of every layer, `[layers, …]`. Raises LookupError where there are no computed scales."""
        return self._view("scale_layers")

    @property
    def rows(self) -> Tensor:
        """`pages` as uint8 with each head's inline scale and pad: the last axis is head_dim + 4 + inline_pad bytes.

        Raises LookupError in other forms than inline ones.
        """
        return self._view("rows")

    @property
    def scale(self) -> Tensor:
        """The given scale: `[1]` for one a tensor, `[heads]` for one a head. Raises LookupError where none is given."""
        return self._view("scale")

    @property
    def scale_value(self) -> float:
        """The given scale as a Python float, where the contract says `as_float`. Raises LookupError elsewhere."""
        if self.value is None:
            raise LookupError(
                f"cache.{self.name}.scale_value: the contract does not say Given('tensor', as_float=True)"
            )
        return self.value


@dataclass(frozen=True)
class Tables:
    """What an engine that addresses by block tables is handed: pages of 32-bit ids, one request a token.

    Tensors are int32. A token whose slot is negative has batch index -1.
    """

    block_table: Tensor
    """`[requests, pages a request]`: the page that holds a request's n-th page of tokens."""
    batch_indices: Tensor
    """`[tokens]`: the request of each token."""
    positions: Tensor
    """`[tokens]`: where each token lies in its request."""
    kv_indptr: Tensor
    """`[requests + 1]`: where each request's pages begin in `kv_indices`."""
    kv_indices: Tensor
    """`[pages in use]`: the requests' pages, one request after the other."""
    last_page_len: Tensor
    """`[requests]`: tokens in each request's last page."""


@dataclass(frozen=True)
class Cache:
    """The cache a target stores to, or loads from."""

    slots: int
    """Rows, over all pages."""
    page: int
    """Rows of a page; 1 where the form has no pages."""
    heads: int
    head_dim: int
    """Elements of a head of K."""
    head_dim_v: int
    """Elements of a head of V."""
    k: Side
    v: Side
    fused_pages: Tensor | None = None
    """What `fused` is, and below what `tables` and `fused_scale` are; None where this form has none."""
    block_tables: Tables | None = None
    fused_given: Tensor | None = None
    layers: int = 1
    """Caches of so many layers lie one behind the other: those of `k.layers`."""
    layer: int = 0
    """Which of them this one is. All other tensors are its own: only a target that takes a layer's number needs it."""

    @property
    def fused(self) -> Tensor:
        """The codes of K and V in one tensor, where the form is `packed` or `fused`. Raises LookupError elsewhere.

        `[pages, heads, page, head_dim + head_dim_v]`, or `[slots, 2 * heads, head_dim]`.
        """
        if self.fused_pages is None:
            raise LookupError("cache.fused: K and V lie in tensors of their own in this form")
        return self.fused_pages

    @property
    def fused_scale(self) -> Tensor:
        """K's given scales, then V's, where the form is `fused`: `[2]`, or `[2 * heads]` for one a head.

        Raises LookupError elsewhere.
        """
        if self.fused_given is None:
            raise LookupError("cache.fused_scale: no scales are given here, or the form is not 'fused'; use .k.scale")
        return self.fused_given

    @property
    def tables(self) -> Tables:
        """Block table, batch indices, positions and CSR, where the form is addressed by them. LookupError elsewhere."""
        if self.block_tables is None:
            raise LookupError("cache.tables: the form does not say addressed_by='block_table'")
        return self.block_tables


@dataclass(frozen=True)
class Output:
    """Where a load target writes: `[tokens, heads, head_dim]` of the contract's `out`, prefilled with random bytes."""

    k: Tensor
    v: Tensor


@dataclass(frozen=True)
class StoreTarget:
    """A kernel that stores rows as codes, with what it promises. Still callable as the function it wraps."""

    name: str
    function: StoreFunction
    contract: Contract
    accepts: Accepts
    form: Form
    refuses: tuple[str, ...]
    declares: str | None
    prepare: Callable[[], None] | None

    def __call__(self, k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
        """Store K and V. `k`, `v` are `[tokens, heads, head_dim]` views; `slots` is `[tokens]`."""
        self.function(k, v, slots, cache)


@dataclass(frozen=True)
class LoadTarget:
    """A kernel that loads codes as rows, with what it promises. Still callable as the function it wraps."""

    name: str
    function: LoadFunction
    contract: LoadContract
    accepts: Accepts
    form: Form
    refuses: tuple[str, ...]
    declares: str | None
    prepare: Callable[[], None] | None

    def __call__(self, slots: Tensor, cache: Cache, out: Output) -> None:
        """Load the rows at `slots` `[tokens]` into `out`."""
        self.function(slots, cache, out)


Target: TypeAlias = "StoreTarget | LoadTarget"

#: The store and load targets of this process, in the order of their declaration: two functions of one name leave a
#: module only the second.
DECLARED: list[Target] = []


@dataclass(frozen=True)
class EncoderTarget:
    """An encoder alone, with what it promises: `kvcheck encode` runs it. Still callable as the function it wraps."""

    name: str
    function: EncoderFunction
    contract: EncoderContract

    def __call__(self, x: Tensor, out: Tensor) -> None:
        """Encode the values of `x` `[n]` into the codes `out` `[n]`, uint8."""
        self.function(x, out)


def store_target(
    name: str,
    *,
    contract: Contract,
    accepts: Accepts | None = None,
    cache: Form | None = None,
    refuses: tuple[type[BaseException], ...] = (),
    declares: str | None = None,
    prepare: Callable[[], None] | None = None,
) -> Callable[[StoreFunction], StoreTarget]:
    """Declare a function of (k, v, slots, cache) as a store target.

    `refuses` lists the exceptions by which the kernel says that it does not take an input; any other is a crash.
    `declares` names the fault of a known-bad kernel, for `--expect-declared` alone. `prepare` builds what must be
    built before the first case. Raises TargetError where a value is not one that kvcheck knows.
    """
    promised = checked(checked_name(name), contract, Contract, "contract")
    limits = checked(name, Accepts() if accepts is None else accepts, Accepts, "accepts")
    form = checked(name, Form() if cache is None else cache, Form, "cache")
    names = refusals(name, refuses)
    check_beside(name, declares, prepare)

    def declare(function: StoreFunction) -> StoreTarget:
        check_function(name, function, 4, "k, v, slots, cache")
        target = StoreTarget(name, function, promised, limits, form, names, declares, prepare)
        DECLARED.append(target)
        return target

    return declare


def load_target(
    name: str,
    *,
    contract: LoadContract,
    accepts: Accepts | None = None,
    cache: Form | None = None,
    refuses: tuple[type[BaseException], ...] = (),
    declares: str | None = None,
    prepare: Callable[[], None] | None = None,
) -> Callable[[LoadFunction], LoadTarget]:
    """Declare a function of (slots, cache, out) as a load target. Its options are those of `store_target`."""
    promised = checked(checked_name(name), contract, LoadContract, "contract")
    limits = checked(name, Accepts() if accepts is None else accepts, Accepts, "accepts")
    form = checked(name, Form() if cache is None else cache, Form, "cache")
    names = refusals(name, refuses)
    check_beside(name, declares, prepare)

    def declare(function: LoadFunction) -> LoadTarget:
        check_function(name, function, 3, "slots, cache, out")
        target = LoadTarget(name, function, promised, limits, form, names, declares, prepare)
        DECLARED.append(target)
        return target

    return declare


def encoder_target(
    name: str,
    *,
    contract: EncoderContract | None = None,
) -> Callable[[EncoderFunction], EncoderTarget]:
    """Declare a function of (x, out) as an encoder target, for `kvcheck encode --target FILE.py::NAME`.

    `x` is a dense tensor `[n]` of one of the contract's dtypes, `out` is uint8 `[n]`; both belong to kvcheck. `n` is a
    multiple of 65536. The function writes the code of every element, and nothing else. Raises TargetError where a value
    is not one that kvcheck knows.
    """
    promised = checked(
        checked_name(name), EncoderContract() if contract is None else contract, EncoderContract, "contract"
    )

    def declare(function: EncoderFunction) -> EncoderTarget:
        check_function(name, function, 2, "x, out")
        return EncoderTarget(name, function, promised)

    return declare


def fused(k: Tensor, v: Tensor) -> Tensor:
    """The one tensor of K heads, then V heads, that `k` and `v` are views of: `[tokens, heads_k + heads_v, dim]`.

    For targets that declare `Accepts(source="fused_kv")`. Raises Refused where K and V do not lie so.
    """
    if k.stride() != v.stride() or k.shape[0] != v.shape[0] or k.shape[2] != v.shape[2]:
        raise Refused(f"K {tuple(k.shape)} {k.stride()} and V {tuple(v.shape)} {v.stride()} are not one fused tensor")
    if v.data_ptr() - k.data_ptr() != k.shape[1] * k.stride(1) * k.element_size():
        raise Refused("V's heads do not follow K's heads in one fused tensor")
    shape = (k.shape[0], k.shape[1] + v.shape[1], k.shape[2])
    return k.as_strided(shape, k.stride())
