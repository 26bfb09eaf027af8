"""The API that users import: what decorators refuse, in one line, and what a target is afterwards."""  # noqa: INP001 - each folder of tests is a package of its own

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import pytest
import torch

import kvcheck
from kvcheck import (
    Accepts,
    Cache,
    Computed,
    Contract,
    EncoderContract,
    Form,
    Given,
    LoadContract,
    LoadTarget,
    Output,
    Refused,
    Side,
    StoreTarget,
    fused,
    load_target,
    store_target,
)
from kvcheck.errors import ContractError, KvcheckError, TargetError

CONTRACT = Contract(scale=Computed())
EMPTY = torch.zeros(0)


def store(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
    """Store nothing."""


def load(slots: torch.Tensor, cache: Cache, out: Output) -> None:
    """Load nothing."""


def cache() -> Cache:
    """A cache without any tensor."""
    return Cache(0, 1, 1, 1, 1, Side("k", {}, {"scale": "none is given"}), Side("v", {}, {}))


def one_line(error: pytest.ExceptionInfo[TargetError]) -> str:
    """The sentence, known to be one line that names the target."""
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith("target 'mine': ")
    return text.removeprefix("target 'mine': ")


RULES = "expected divide, divide_approx, multiply_reciprocal, multiply_approx_reciprocal or power_of_two"


@pytest.mark.parametrize(
    ("kind", "key", "wrong", "sentence"),
    [
        (Contract, "apply", "multiply", f"is 'multiply'; {RULES}"),
        (Contract, "format", "e4m3", "is 'e4m3'; expected e4m3fn, e4m3fnuz, e5m2, e5m2fnuz or int8"),
        (Contract, "ulps", "2", "is '2'; expected an integer or None"),
        (Contract, "scale", 3, "is 3; expected kvcheck.Computed, kvcheck.Given or None"),
        (
            Contract,
            "scale",
            Given,
            "is <class 'kvcheck.contract.Given'>; expected kvcheck.Computed, kvcheck.Given or None",
        ),
        (Contract, "minimum", "low", "is 'low'; expected a number or None"),
        (Computed, "derive", "div", f"is 'div'; {RULES}"),
        (Computed, "granularity", 8, "is 8; expected text"),
        (Computed, "maximum", [448.0], "is [448.0]; expected a number"),
        (Given, "granularity", "token", "is 'token'; expected tensor or head"),
        (Given, "shared", 1, "is 1; expected True or False"),
        (LoadContract, "out", "fp8", "is 'fp8'; expected bf16, fp16 or fp32"),
        (LoadContract, "compute", None, "is None; expected fp32"),
        (EncoderContract, "dtypes", ("fp32", 16), "has 16; expected fp32, bf16 or fp16"),
        (Accepts, "dtypes", ["bf16", "fp8"], "has 'fp8'; expected bf16, fp16 or fp32"),
        (Accepts, "dtypes", "bf16", "is 'bf16'; expected a tuple of bf16, fp16 or fp32, or None"),
        (Accepts, "head_dims", 128, "is 128; expected a tuple of integers or None"),
        (Accepts, "head_dims", (64, "128"), "has '128'; expected an integer"),
        (Accepts, "inner", 2, "is 2; expected 1 or None"),
        (Accepts, "align", "x", "is 'x'; expected an integer"),
        (Form, "kind", "page", "is 'page'; expected slots, pages, heads_pages, packed or fused"),
        (Form, "page", "a", "is 'a'; expected an integer"),
        (Form, "page", True, "is True; expected an integer"),
        (Form, "page", "a\n" * 99, "is 'a\\na\\n"),
    ],
)
def test_a_wrong_value_is_one_line(kind: type[msgspec.Struct], key: str, wrong: object, sentence: str) -> None:
    """The field, what it is, what was expected: where it is said, and where it is put into what was said before."""
    given: dict[str, object] = {"scale": None} if kind is Contract else {}
    with pytest.raises(ContractError) as caught:
        kind(**{**given, key: wrong})
    assert isinstance(caught.value, KvcheckError)
    text = str(caught.value)
    assert text.startswith(f"{kind.__name__}.{key} {sentence}")
    assert len(text) < 200
    assert "\n" not in text
    with pytest.raises(ContractError, match=re.escape(text)):
        msgspec.structs.replace(kind(**given), **{key: wrong})


def test_a_value_of_a_fitting_type_is_made_of_the_declared_one() -> None:
    """A list becomes a tuple, so that what holds it can be hashed; an integer becomes a float."""
    accepts = Accepts(dtypes=["bf16"], head_dims=[64, 128])  # type: ignore[arg-type]
    assert (accepts.dtypes, accepts.head_dims) == (("bf16",), (64, 128))
    assert len({accepts, Accepts(dtypes=("bf16",), head_dims=(64, 128))}) == 1
    assert repr(Computed(maximum=448).maximum) == "448.0"


def test_the_wrong_kind_of_object_is_named() -> None:
    """A load contract is no store contract, and a dict is neither."""
    with pytest.raises(TargetError) as caught:
        store_target("mine", contract=LoadContract())  # type: ignore[arg-type]
    assert one_line(caught) == "contract is LoadContract; expected kvcheck.Contract"
    with pytest.raises(TargetError) as caught:
        load_target("mine", contract=CONTRACT)  # type: ignore[arg-type]
    assert one_line(caught) == "contract is Contract; expected kvcheck.LoadContract"
    with pytest.raises(TargetError) as caught:
        store_target("mine", contract=CONTRACT, cache={"kind": "slots"})  # type: ignore[arg-type]
    assert one_line(caught) == "cache is dict; expected kvcheck.Form"
    with pytest.raises(TargetError) as caught:
        store_target("mine", contract=CONTRACT, accepts="anything")  # type: ignore[arg-type]
    assert one_line(caught) == "accepts is str; expected kvcheck.Accepts"


@pytest.mark.parametrize("wrong", ["AssertionError", AssertionError("x"), int, None])
def test_refusals_are_exception_classes(wrong: object) -> None:
    """Not their names, not instances, not other classes."""
    with pytest.raises(TargetError) as caught:
        store_target("mine", contract=CONTRACT, refuses=(AssertionError, wrong))  # type: ignore[arg-type]
    assert one_line(caught) == f"refuses has {wrong!r}; expected exception classes"


def test_a_refusal_is_no_exception_at_all() -> None:
    """Who refuses by Exception refuses by every mistake, and would never crash."""
    for wide in (Exception, BaseException):
        with pytest.raises(TargetError) as caught:
            store_target("mine", contract=CONTRACT, refuses=(wide,))
        assert one_line(caught).startswith(f"refuses has {wide.__name__}, which any crash is")
    with pytest.raises(TargetError) as caught:
        store_target("mine", contract=CONTRACT, refuses=ValueError)  # type: ignore[arg-type]
    assert one_line(caught) == "refuses is <class 'ValueError'>; expected a tuple of exception classes"


@pytest.mark.parametrize("name", ["", " ", "a\n", " a", "a::b", "\x1b[31m", 5, None])
def test_a_name_is_text_that_can_be_said(name: object) -> None:
    """On a command line and in a report."""
    with pytest.raises(TargetError) as caught:
        store_target(name, contract=CONTRACT)  # type: ignore[arg-type]
    assert str(caught.value) == f"a target is named {name!r}; expected printable text without '::'"


def test_what_stands_beside_a_contract_is_checked() -> None:
    """A fault's name, a function."""
    with pytest.raises(TargetError) as caught:
        store_target("mine", contract=CONTRACT, declares=5)  # type: ignore[arg-type]
    assert one_line(caught) == "declares is 5; expected the name of a fault"
    with pytest.raises(TargetError) as caught:
        load_target("mine", contract=LoadContract(), prepare="make")  # type: ignore[arg-type]
    assert one_line(caught) == "prepare is 'make'; expected a function"


def test_a_function_that_a_call_does_not_run_is_none() -> None:
    """A coroutine, a generator: their callers have to do more than call."""

    async def later(k: object, v: object, slots: object, cache: object) -> None:
        raise AssertionError(k, v, slots, cache)

    def stepwise(k: object, v: object, slots: object, cache: object) -> Iterator[object]:
        yield k, v, slots, cache

    for function in (later, stepwise):
        with pytest.raises(TargetError) as caught:
            store_target("mine", contract=CONTRACT)(function)  # type: ignore[arg-type]
        assert one_line(caught) == "the function is async or yields: a call of it runs nothing"


def test_a_function_must_take_what_it_will_be_given() -> None:
    """Four arguments for a store, three for a load, by position."""
    with pytest.raises(TargetError) as caught:
        store_target("mine", contract=CONTRACT)(load)  # type: ignore[arg-type]
    assert re.match(r"the function does not take \(k, v, slots, cache\): too many positional", one_line(caught))
    with pytest.raises(TargetError) as caught:
        load_target("mine", contract=LoadContract())(store)  # type: ignore[arg-type]
    assert re.match(r"the function does not take \(slots, cache, out\): missing a required argu", one_line(caught))

    def by_name(*, k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        raise AssertionError(k, v, slots, cache)

    with pytest.raises(TargetError, match="does not take"):
        store_target("mine", contract=CONTRACT)(by_name)  # type: ignore[arg-type]

    def any_number(*arguments: object, extra: int = 0) -> None:
        raise AssertionError(arguments, extra)

    assert store_target("mine", contract=CONTRACT)(any_number).function is any_number


def test_a_store_target_is_what_was_declared() -> None:
    """With defaults in place, and callable as the function that it wraps."""
    seen = []

    @store_target("mine", contract=CONTRACT, refuses=(AssertionError, Refused), declares="sibling-pitch")
    def mine(k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, cache: Cache) -> None:
        seen.append((k, v, slots, cache))

    assert isinstance(mine, StoreTarget)
    assert (mine.name, mine.contract, mine.accepts, mine.form) == ("mine", CONTRACT, Accepts(), Form())
    assert mine.refuses == ("builtins.AssertionError", "kvcheck.errors.Refused")
    assert (mine.declares, mine.prepare) == ("sibling-pitch", None)
    handed = (EMPTY, EMPTY, EMPTY, cache())
    mine(*handed)
    assert seen == [handed]


def test_a_load_target_is_what_was_declared() -> None:
    """The same for (slots, cache, out)."""
    seen = []
    prepared = []

    @load_target("mine", contract=LoadContract(), cache=Form("pages"), prepare=lambda: prepared.append(1))
    def mine(slots: torch.Tensor, cache: Cache, out: Output) -> None:
        seen.append((slots, cache, out))

    assert isinstance(mine, LoadTarget)
    assert (mine.contract, mine.form.kind) == (LoadContract(), "pages")
    handed = (EMPTY, cache(), Output(EMPTY, EMPTY))
    mine(*handed)
    assert seen == [handed]
    assert mine.prepare is not None
    mine.prepare()
    assert prepared == [1]


def test_views_that_are_missing_say_why() -> None:
    """With the form's reason where there is one."""
    with pytest.raises(LookupError, match=r"^.cache\.k\.scale: none is given.$|^cache\.k\.scale: none is given$"):
        cache().k.scale  # noqa: B018 - asking raises
    with pytest.raises(LookupError, match=r"cache\.v\.codes: this cache has no such tensor"):
        cache().v.codes  # noqa: B018
    with pytest.raises(LookupError, match="K and V lie in tensors of their own"):
        cache().fused  # noqa: B018
    with pytest.raises(LookupError, match="no scales are given here, or the form is not 'fused'"):
        cache().fused_scale  # noqa: B018
    with pytest.raises(LookupError, match="addressed_by='block_table'"):
        cache().tables  # noqa: B018
    with pytest.raises(LookupError, match=r"Given\('tensor', as_float=True\)"):
        cache().k.scale_value  # noqa: B018


def test_fused_is_one_view_of_k_heads_then_v_heads() -> None:
    """Of the same memory, with Q before it and rows of it apart."""
    whole = torch.arange(5 * 9 * 4.0).reshape(5, 9, 4)
    k, v = whole[:, 3:6], whole[:, 6:]
    both = fused(k, v)
    assert both.data_ptr() == k.data_ptr()
    assert both.stride() == k.stride()
    assert torch.equal(both, whole[:, 3:])


@pytest.mark.parametrize(
    ("k", "v", "sentence"),
    [
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, 4), "V's heads do not follow K's heads in one fused tensor"),
        (
            torch.zeros(2, 3, 4),
            torch.zeros(2, 6, 4)[:, :3],
            "K (2, 3, 4) (12, 4, 1) and V (2, 3, 4) (24, 4, 1) are not one fused tensor",
        ),
        (torch.zeros(2, 3, 4), torch.zeros(3, 3, 4), "K (2, 3, 4) (12, 4, 1) and V (3, 3, 4) (12, 4, 1) are not one"),
        (
            torch.zeros(2, 3, 4),
            torch.zeros(2, 3, 4)[..., :2],
            "K (2, 3, 4) (12, 4, 1) and V (2, 3, 2) (12, 4, 1) are not one fused tensor",
        ),
    ],
)
def test_what_is_not_fused_is_refused(k: torch.Tensor, v: torch.Tensor, sentence: str) -> None:
    """Never a copy in its place."""
    with pytest.raises(Refused) as caught:
        fused(k, v)
    assert str(caught.value).startswith(sentence)


def test_the_package_shows_its_names_and_no_others() -> None:
    """All that an adapter needs, importable from `kvcheck`."""
    assert sorted(kvcheck.__all__) == kvcheck.__all__
    assert all(hasattr(kvcheck, name) for name in kvcheck.__all__)
