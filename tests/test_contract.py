"""Contracts: what each says by default, what none can say, and that all of it survives a file."""  # noqa: INP001 - each folder of tests is a package of its own

from __future__ import annotations

from typing import TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.contract import (
    DECLARED_ULPS,
    Accepts,
    Computed,
    Contract,
    Derive,
    EncoderContract,
    Form,
    Given,
    LoadContract,
)
from kvcheck.errors import ContractError

Value: TypeAlias = str | int | float | bool | None

NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False)
COMPUTED = st.builds(
    Computed,
    granularity=st.sampled_from(["token_head", "token", "head", "tensor"]) | st.integers(1, 999).map("block:{}".format),
    maximum=st.floats(0, exclude_min=True, allow_infinity=False, allow_nan=False),
    eps=st.floats(0, allow_infinity=False, allow_nan=False),
    zero_row=NUMBERS,
)
GIVEN = st.builds(Given, granularity=st.just("tensor"))


@given(st.builds(Contract, scale=st.none() | COMPUTED | GIVEN, minimum=NUMBERS))
def test_store_contracts_survive_msgpack_and_json(contract: Contract) -> None:
    """As themselves, whichever kind of scale they have."""
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(contract), type=Contract) == contract
    assert msgspec.json.decode(msgspec.json.encode(contract), type=Contract) == contract


@given(st.builds(Contract, scale=st.none() | COMPUTED) | st.builds(LoadContract))
def test_the_tag_says_store_or_load(contract: Contract | LoadContract) -> None:
    """A union of both decodes to the one that was written."""
    data = msgspec.msgpack.encode(contract)
    found = msgspec.msgpack.decode(data, type=Contract | LoadContract)
    assert found == contract
    assert type(found) is type(contract)
    tag = msgspec.msgpack.decode(data)["type"]
    assert tag == ("store" if isinstance(contract, Contract) else "load")


@pytest.mark.parametrize(("scale", "tag"), [(Computed(), "computed"), (Given(), "given")])
def test_the_tag_says_computed_or_given(scale: Computed | Given, tag: str) -> None:
    """And None stays None."""
    built = msgspec.to_builtins(Contract(scale=scale))
    assert built["scale"]["type"] == tag
    assert msgspec.to_builtins(Contract(scale=None))["scale"] is None


@given(st.builds(Accepts, align=st.integers(1, 4096)))
def test_limits_survive_msgpack(accepts: Accepts) -> None:
    """Tuples come back as tuples."""
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(accepts), type=Accepts) == accepts


@pytest.mark.parametrize("form", [Form(), Form("pages", page=1), Form("slots", scales="inline", inline_pad=28)])
def test_forms_survive_msgpack(form: Form) -> None:
    """As themselves."""
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(form), type=Form) == form


def test_defaults() -> None:
    """One scale a token and head, divided by 448, codes of e4m3fn to nearest even, saturated."""
    rule, contract = Computed(), Contract(scale=Computed())
    assert (rule.granularity, rule.maximum, rule.eps, rule.derive, rule.dtype) == (
        "token_head",
        448,
        0,
        "divide",
        "fp32",
    )
    assert (contract.format, contract.apply, contract.rounding, contract.overflow) == (
        "e4m3fn",
        "divide",
        "rne",
        "saturate",
    )
    assert (contract.nan, contract.negative_zero, contract.negative_slots) == ("canonical", "keep", "skip")
    assert (LoadContract().scale, LoadContract().out, LoadContract().nan) == ("token_head", "bf16", "nan")
    assert (Form().kind, Form().codes, Form().scales, Form().addressed_by) == ("slots", "uint8", "sidecar", "slots")
    assert (Accepts().align, Accepts().source, Accepts().dtypes) == (1, "k_v", None)


@pytest.mark.parametrize("derive", sorted(DECLARED_ULPS))
def test_declared_ulps(derive: Derive) -> None:
    """Each arithmetic's own, unless told otherwise; nothing is applied where there is no scale."""
    own = {"divide_approx": 2, "multiply_approx_reciprocal": 3}.get(derive, 0)
    assert Computed(derive=derive).declared_ulps == own
    assert Computed(derive=derive, ulps=7).declared_ulps == 7
    assert Computed(derive=derive, ulps=0).declared_ulps == 0
    assert Contract(scale=Given(), apply=derive).declared_ulps == own
    assert Contract(scale=Given(), apply=derive, ulps=5).declared_ulps == 5
    assert Contract(scale=None, apply=derive, ulps=5).declared_ulps == 0


@pytest.mark.parametrize(
    ("kind", "values", "sentence"),
    [
        (
            Computed,
            {"granularity": "row"},
            "Computed.granularity is 'row'; expected token_head, token, head, tensor or block:N",
        ),
        (
            Computed,
            {"granularity": "block:0"},
            "Computed.granularity is 'block:0'; expected token_head, token, head, tensor or",
        ),
        (Computed, {"granularity": "block:8x"}, "Computed.granularity is 'block:8x'; expected"),
        (Computed, {"maximum": 0.0}, "Computed.maximum is 0.0; expected a finite number above zero"),
        (Computed, {"maximum": float("nan")}, "Computed.maximum is nan; expected a finite number above zero"),
        (Computed, {"maximum": float("inf")}, "Computed.maximum is inf; expected a finite number above zero"),
        (Computed, {"eps": float("inf")}, "Computed.eps is inf; expected zero or more, and finite"),
        (Computed, {"eps": -1e-10}, "Computed.eps is -1e-10; expected zero or more, and finite"),
        (Computed, {"eps": float("nan")}, "Computed.eps is nan; expected zero or more, and finite"),
        (Computed, {"zero_row": float("nan")}, "Computed.zero_row is nan; expected a finite number or None"),
        (Computed, {"ulps": -1}, "Computed.ulps is -1; expected 0 or more, or None"),
        (Contract, {"scale": None, "ulps": -1}, "Contract.ulps is -1; expected 0 or more, or None"),
        (EncoderContract, {"dtypes": ()}, "EncoderContract.dtypes is (); expected one or more of fp32, bf16, fp16"),
        (
            Given,
            {"granularity": "head", "as_float": True},
            "Given.as_float hands over one float a tensor; granularity is 'head'",
        ),
        (Accepts, {"align": 0}, "Accepts.align is 0; expected 1 or more, in bytes"),
        (Accepts, {"launches": ()}, "Accepts.launches is (), which takes nothing; expected values, or None for any"),
        (Accepts, {"head_dims": ()}, "Accepts.head_dims is (), which takes nothing; expected values, or None for any"),
        (Form, {"page": 0}, "Form.page is 0; expected 1 or more"),
        (Form, {"scales": "inline", "inline_pad": -4}, "Form.inline_pad is -4; expected 0 or more"),
        (Form, {"inline_pad": 4}, "Form.inline_pad is 4 and scales 'sidecar'; expected scales='inline'"),
        (
            Form,
            {"kind": "packed", "scales": "inline"},
            "Form.scales is 'inline' in a 'packed' cache; expected slots, pages or heads_pages",
        ),
        (
            Form,
            {"kind": "fused", "scales": "inline"},
            "Form.scales is 'inline' in a 'fused' cache; expected slots, pages or heads_pages",
        ),
    ],
)
def test_what_no_kernel_can_have_is_refused_when_it_is_said(
    kind: type[msgspec.Struct], values: dict[str, Value], sentence: str
) -> None:
    """At construction, and when it is read from a file."""
    with pytest.raises(ContractError) as caught:
        kind(**values)
    assert str(caught.value).startswith(sentence)
    with pytest.raises(msgspec.ValidationError) as read:
        msgspec.convert({**values, **_tag(kind)}, kind)
    assert sentence in str(read.value)


@pytest.mark.parametrize("kind", [Computed, Given, Contract, LoadContract, Accepts, Form])
def test_unknown_fields_are_refused(kind: type[msgspec.Struct]) -> None:
    """A misspelt promise is none."""
    fields = {"scale": None} if kind is Contract else {}
    with pytest.raises(msgspec.ValidationError, match="unknown field `granularty`"):
        msgspec.convert({**fields, **_tag(kind), "granularty": 1}, kind)


def test_everything_is_frozen_and_hashable() -> None:
    """Contracts are data, and keys."""
    contract = Contract(scale=Computed())
    with pytest.raises(AttributeError):
        contract.apply = "divide_approx"  # type: ignore[misc]
    assert len({contract, Contract(scale=Computed()), LoadContract(), LoadContract()}) == 2


def _tag(kind: type[msgspec.Struct]) -> dict[str, str]:
    tag = kind.__struct_config__.tag
    return {"type": str(tag)} if tag is not None else {}
