"""A right kernel passes, whatever the case."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge.emulate import COMPUTED, Memory, emulate, given_store, store
from kvcheck.contract import Contract, Form, Given
from kvcheck.judge import judge
from kvcheck.schema import Case, Verdict

CASES = st.builds(
    Case,
    k_view=st.sampled_from(["dense", "qkv", "inner2", "transposed", "expanded", "offset17"]),
    v_view=st.sampled_from(["dense", "qkv", "head_padded"]),
    k_values=st.sampled_from(["normal", "zero_rows", "nan", "inf", "all_zero", "normal*2^-20"]),
    v_values=st.sampled_from(["normal*0.01", "overflow", "negative_zero"]),
    tokens=st.integers(0, 5),
    heads=st.integers(1, 3),
    head_dim=st.sampled_from([8, 16]),
    head_dim_v=st.sampled_from([None, 8]),
    dtype=st.sampled_from(["bf16", "fp16", "fp32"]),
    slots=st.sampled_from(["ascending", "permuted", "negative_mixed", "all_negative", "page_edges"]),
    slot_dtype=st.sampled_from(["int32", "int64"]),
    layout=st.sampled_from(["arena", "pooled"]),
    seed=st.integers(0, 3),
)
FORMS = st.sampled_from([Form("slots"), Form("pages", page=4), Form("heads_pages", page=4), Form(scales="inline")])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=CASES, form=FORMS)
def test_a_right_kernel_passes(case: Case, form: Form) -> None:
    """Every element of every stored row is compared, none is wrong, and nothing else was touched."""
    emission = emulate(case=case, form=form)
    verdict = judge(emission)
    stored = len(emission.launches[0].rows["k_codes"]) + len(emission.launches[0].rows["v_codes"])
    assert verdict.outcome == "pass", verdict.reason
    assert verdict.codes.compared == stored
    assert verdict.scales.compared * 4 == sum(len(emission.launches[0].rows[name]) for name in ("k_scales", "v_scales"))


def test_the_default_case_compares_every_code() -> None:
    """8 tokens of 3 heads of 128, K and V."""
    verdict = judge(emulate())
    assert (verdict.codes.compared, verdict.scales.compared) == (6144, 48)
    assert (verdict.independence.differs, verdict.determinism.launches, verdict.reason) == (0, 3, "")


def test_packed_caches_are_judged() -> None:
    """K and V split off one tensor's last axis are told apart."""
    assert judge(emulate(form=Form("packed", page=4))).outcome == "pass"


@pytest.mark.parametrize("tokens", [0, 4])
def test_nothing_stored_passes_while_nothing_is_touched(tokens: int) -> None:
    """No tokens, or only negative slots: nothing is compared; a stray byte is a mismatch all the same."""
    case = Case(tokens=tokens, slots="all_negative")
    verdict = judge(emulate(case=case))
    assert (verdict.outcome, verdict.codes.compared, verdict.tolerance.k.absolute) == ("pass", 0, None)
    touched = judge(emulate(lambda memory: memory.flip("k_codes", 0), case=case))
    assert (touched.outcome, touched.writes.stray) == ("mismatch", 1)


def test_views_of_equal_values_have_equal_digests() -> None:
    """A digest follows the logical inputs, not where they lie; other values have another."""
    plain = judge(emulate()).digest
    assert plain == judge(emulate(case=Case(k_view="qkv", v_view="inner2", layout="pooled"))).digest
    assert plain is not None
    for case in (Case(k_values="uniform*3"), Case(v_values="uniform*3")):
        other = judge(emulate(case=case)).digest
        assert other is not None
        assert plain.codes != other.codes
        assert plain.scales != other.scales
    assert len(plain.codes) == len(plain.scales) == 32


def test_given_scales_are_not_judged() -> None:
    """Nothing is stored for a scale that was given: none is compared, and codes go by the given one."""
    contract = Contract(scale=Given("tensor"))
    verdict = judge(emulate(given_store(2**-3, 2**-4), contract=contract))
    assert (verdict.outcome, verdict.scales.compared, verdict.codes.compared) == ("pass", 0, 6144)
    swapped = judge(emulate(given_store(2**-4, 2**-3), contract=contract))
    assert swapped.outcome == "mismatch"
    assert swapped.codes.k_wrong > 2500


def test_a_given_scale_is_what_its_dtype_keeps() -> None:
    """0.1 in bf16 is 0.10009765625: that is what the kernel can read."""
    contract = Contract(scale=Given("tensor", dtype="bf16", shared=True))
    case = Case(k_scale="0.1", v_scale="0.1", dtype="fp32")
    assert judge(emulate(given_store(0.10009765625, 0.10009765625), case, contract)).outcome == "pass"
    assert judge(emulate(given_store(0.1, 0.1), case, contract)).outcome == "mismatch"


def test_undefined_nan_codes_are_not_compared() -> None:
    """A NaN's code may be anything where the contract leaves it open, and is one wrong code where it does not."""
    case = Case(k_values="nan")

    def kernel(memory: Memory) -> None:
        store(memory)
        for slot in memory.slots.tolist():
            row = memory.row("k_codes", slot).copy()
            row[row == 0x7F] = 0x55
            memory.write("k_codes", slot, row)

    loose = judge(emulate(kernel, case, msgspec.structs.replace(COMPUTED, nan="undefined")))
    strict = judge(emulate(kernel, case))
    assert loose.outcome == "pass"
    assert strict.codes.k_wrong == strict.codes.compared - loose.codes.compared > 0
    assert strict.codes.first is not None
    assert (strict.codes.first.x, strict.codes.first.got, strict.codes.first.want) == (None, 0x55, 0x7F)


def test_a_passing_verdict_says_nothing_more() -> None:
    """A pass has no reason."""
    verdict: Verdict = judge(emulate())
    assert (verdict.outcome, verdict.reason) == ("pass", "")
