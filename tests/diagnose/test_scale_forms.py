"""Rules and uses of scales as kernels get them wrong, each recovered from the bytes; and what none of them is."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from judge.emulate import Memory, amax_scale, e4m3, emulate

from kvcheck.contract import Computed, Contract
from kvcheck.diagnose import diagnose
from kvcheck.formats.cast import round_to
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

from .test_scales import Floats, Rule, kernel

TOP = np.float32(448)


def of(amax: Floats) -> Floats:
    """The scale of an amax `[tokens, heads]`."""
    return np.asarray(amax / TOP, np.float32)


def followed(scale: Floats, x: Floats) -> tuple[Floats, Floats]:
    """A scale that is kept, and used."""
    return scale, np.asarray(x / scale[:, :, None], np.float32)


def first(count: int) -> Rule:
    """The amax of so many elements of each row."""
    return lambda x: followed(amax_scale(x[:, :, :count]), x)


def from_on(count: int) -> Rule:
    """The amax without the first elements of each row."""
    return lambda x: followed(amax_scale(x[:, :, count:]), x)


def even_lanes(x: Floats) -> tuple[Floats, Floats]:
    """The amax of every second element."""
    return followed(amax_scale(x[:, :, ::2]), x)


def negative(x: Floats) -> tuple[Floats, Floats]:
    """Minus the least value for the amax."""
    return followed(of(-x.min(axis=2)), x)


def half_range(x: Floats) -> tuple[Floats, Floats]:
    """Half of what lies between the least and the greatest value."""
    return followed(of((x.max(axis=2) - x.min(axis=2)) * np.float32(0.5)), x)


def head_pairs(x: Floats) -> tuple[Floats, Floats]:
    """One amax for two heads, as a program that takes both has it."""
    amax = np.abs(x).max(axis=2)
    top = np.maximum.reduceat(amax, np.arange(0, x.shape[1], 2), axis=1)
    return followed(of(np.repeat(top, 2, axis=1)[:, : x.shape[1]]), x)


def token_fours(x: Floats) -> tuple[Floats, Floats]:
    """One amax for four tokens, head by head."""
    top = np.maximum.reduceat(np.abs(x).max(axis=2), np.arange(0, len(x), 4), axis=0)
    return followed(of(np.repeat(top, 4, axis=0)[: len(x)]), x)


def head_behind(x: Floats) -> tuple[Floats, Floats]:
    """The next head's amax."""
    return followed(np.roll(amax_scale(x), -1, axis=1), x)


def quarters(x: Floats) -> tuple[Floats, Floats]:
    """Four programs a row: each has its own amax, and the last one's is kept."""
    parts = np.abs(x).reshape(*x.shape[:2], 4, -1).max(axis=3) / TOP
    return np.asarray(parts[:, :, -1], np.float32), np.asarray(
        x / np.repeat(parts, x.shape[2] // 4, axis=2), np.float32
    )


def inverted(x: Floats) -> tuple[Floats, Floats]:
    """The reciprocal kept."""
    return np.asarray(np.float32(1) / amax_scale(x)), x / amax_scale(x)[:, :, None]


def amax_kept(x: Floats) -> tuple[Floats, Floats]:
    """The amax kept."""
    return np.abs(x).max(axis=2), x / amax_scale(x)[:, :, None]


def doubled(x: Floats) -> tuple[Floats, Floats]:
    """Twice the scale kept."""
    return amax_scale(x) * np.float32(2), x / amax_scale(x)[:, :, None]


def used_for_240(x: Floats) -> tuple[Floats, Floats]:
    """The right scale kept, and another one used."""
    return amax_scale(x), x / np.asarray(np.abs(x).max(axis=2) / np.float32(240), np.float32)[:, :, None]


def added(x: Floats) -> tuple[Floats, Floats]:
    """A little more than each scale."""
    return followed(amax_scale(x) + np.float32(1e-3), x)


def least(x: Floats) -> tuple[Floats, Floats]:
    """No amax below 3."""
    return followed(of(np.maximum(np.abs(x).max(axis=2), np.float32(3))), x)


def rounded(x: Floats) -> tuple[Floats, Floats]:
    """The values as fp16 first."""
    narrow = round_to(x, "fp16")
    return followed(amax_scale(narrow), narrow)


def reciprocal_bf16(x: Floats) -> tuple[Floats, Floats]:
    """Times the reciprocal as bf16."""
    scale = amax_scale(x)
    return scale, x * round_to(np.asarray(np.float32(1) / scale, np.float32), "bf16")[:, :, None]


def scale_before(x: Floats) -> tuple[Floats, Floats]:
    """Codes by the scale of the token before."""
    scale = amax_scale(x)
    return scale, x / scale[np.maximum(np.arange(len(x)) - 1, 0)][:, :, None]


def three_of_four(x: Floats) -> tuple[Floats, Floats]:
    """An amax that the last of each four elements has no part in."""
    return followed(amax_scale(np.where(np.arange(x.shape[2]) % 4 == 3, np.float32(0), x)), x)


def amax_cut(x: Floats) -> tuple[Floats, Floats]:
    """The upper half of the amax's bits."""
    amax = (np.abs(x).max(axis=2).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return followed(of(amax), x)


def amax_fp16(x: Floats) -> tuple[Floats, Floats]:
    """The amax as fp16."""
    return followed(of(round_to(np.abs(x).max(axis=2), "fp16")), x)


def scaled_in_bf16(x: Floats) -> tuple[Floats, Floats]:
    """The right scale kept; its bf16 divides, and the quotient is bf16 again."""
    scale = amax_scale(x)
    return scale, round_to(np.asarray(x / round_to(scale, "bf16")[:, :, None], np.float32), "bf16")


def mean(x: Floats) -> tuple[Floats, Floats]:
    """Four times the mean magnitude for the amax."""
    return followed(np.asarray(np.abs(x).mean(axis=2) * 4 / np.float32(448), np.float32), x)


def squares(x: Floats) -> tuple[Floats, Floats]:
    """Three times the root mean square for the amax."""
    return followed(np.asarray(np.sqrt((x * x).mean(axis=2)) * 3 / np.float32(448), np.float32), x)


def eighth(x: Floats) -> tuple[Floats, Floats]:
    """An exponent three too low, in the codes alone."""
    scale = amax_scale(x)
    return scale, np.asarray(x / (scale / np.float32(8))[:, :, None], np.float32)


FORMS = [
    (first(48), "amax-population", "each row's first 48 elements"),
    (first(100), "amax-population", "each row's first "),
    (from_on(64), "amax-population", "each row's second half"),
    (from_on(32), "amax-population", "each row's elements from 32 on"),
    (even_lanes, "amax-population", "each element 0 of 2"),
    (negative, "amax-population", "the negative elements"),
    (half_range, "amax-population", "half the range from least to greatest value"),
    (head_pairs, "amax-population", "heads in groups of 2"),
    (token_fours, "amax-population", "tokens in groups of 4"),
    (head_behind, "amax-population", "the head behind"),
    (quarters, "amax-population", "in parts of 32 elements"),
    (inverted, "scale-misapplied", "kept as their reciprocals"),
    (amax_kept, "scale-misapplied", "each amax where its scale belongs"),
    (doubled, "scale-misapplied", "kept 2 times as large as due"),
    (used_for_240, "wrong-max", "codes are those of scales of 240"),
    (added, "zero-row", "0.001 added to the scale"),
    (least, "zero-row", "a least value of 3 on the amax"),
    (reciprocal_bf16, "scale-rounded", "the scale's reciprocal rounded to bf16"),
    (scale_before, "scale-address", "the scales of the token before"),
    (three_of_four, "amax-population", "each row's elements but every fourth from 3 on"),
    (amax_cut, "scale-rounded", "the amax cut to bf16"),
    (amax_fp16, "scale-rounded", "the amax rounded to fp16"),
    (scaled_in_bf16, "double-rounding-bf16", "values and scales that are scaled in bf16"),
    (mean, "amax-population", "4 times the mean magnitude of each row"),
    (squares, "amax-population", "3 times the root mean square of each row"),
    (eighth, "scale-misapplied", "those of the values with 0.125 times the scale"),
]


def named(
    rule: Rule, case: Case | None = None, contract: Contract | None = None, tensors: str = "kv"
) -> tuple[Diagnosis, ...]:
    """What is named of a store with this rule, over many tokens so that no form is met by chance."""
    case = case or Case(tokens=32, dtype="fp32")
    emission = emulate(kernel(rule, tensors), case)
    if contract is not None:
        emission = msgspec.structs.replace(emission, contract=contract)
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize(("rule", "fault", "words"), FORMS, ids=lambda each: getattr(each, "__name__", None))
def test_a_form_is_named_with_what_it_is(rule: Rule, fault: str, words: str) -> None:
    """For both tensors, with all their wrong bytes, and nothing beside it."""
    found = named(rule)
    assert [(each.fault, each.tensor) for each in found] in ([(fault, "k"), (fault, "v")], [(fault, "v"), (fault, "k")])
    assert all(words in each.says and each.explains == each.of > 0 for each in found), found[0].says


@pytest.mark.parametrize(("rule", "fault", "words"), FORMS[:10], ids=lambda each: getattr(each, "__name__", None))
def test_a_form_is_named_within_a_declared_error(rule: Rule, fault: str, words: str) -> None:
    """Scales and codes that a contract of approximate division allows are those of the form as well."""
    contract = Contract(scale=Computed("token_head", derive="divide_approx"), apply="divide_approx")

    def nudged(x: Floats) -> tuple[Floats, Floats]:
        scale, _ = rule(x)
        kept = np.nextafter(scale, np.float32(np.inf))
        return kept, np.asarray(x / kept[:, :, None], np.float32)

    found = named(nudged if rule is not quarters else rule, contract=contract)
    assert {each.fault for each in found} == {fault}
    assert all(words in each.says for each in found)


def test_values_rounded_before_they_are_scaled_are_a_double_rounding() -> None:
    """Values of fp32 that go through fp16, scale and all."""
    found = named(rounded, Case(tokens=32, dtype="fp32", k_values="normal*2^-20", v_values="normal*2^-20"))
    assert {each.fault for each in found} == {"double-rounding-fp16"}
    assert "values are rounded to fp16 before they are scaled" in found[0].says


def test_a_row_that_a_form_does_not_give_leaves_the_others_named() -> None:
    """One broken row is said to stay open; the rule of all others is named even so."""

    def run(memory: Memory) -> None:
        kernel(head_pairs)(memory)
        memory.write("v_codes", int(memory.slots[3]), np.full(3 * 128, 0x11, np.uint8))

    emission = emulate(run, Case(tokens=32))
    found = diagnose(emission, judge(emission))
    assert [each.fault for each in found] == ["amax-population"] * 2
    assert 0 < found[-1].evidence["unexplained"] <= 3 * 128 + 3  # type: ignore[operator] # it is a count


def test_what_a_case_cannot_tell_apart_is_said() -> None:
    """Every amax of these values is 448 and stands in the first half: K alone, or its token, makes no difference."""

    def one_of_all(x: Floats) -> tuple[Floats, Floats]:
        return followed(np.broadcast_to(amax_scale(x).max(axis=1, keepdims=True), x.shape[:2]), x)

    found = named(one_of_all, Case(tokens=1, heads=2, k_values="normal*5", v_values="normal*0.01"), tensors="v")
    assert found[0].fault == "amax-population"
    emission = emulate(kernel(lambda x: (amax_scale(x), x * np.float32(0)), "v"), Case(v_values="normal*0.01"))
    said = diagnose(emission, judge(emission))
    assert all(
        "alike" not in each.evidence or str(each.evidence["alike"]) in each.says.replace(" or ", ", ") for each in said
    )


def test_noise_has_no_form() -> None:
    """Scales that follow nothing are not named, whatever many forms there are."""

    def noise(x: Floats) -> tuple[Floats, Floats]:
        return followed(
            np.asarray(amax_scale(x) * np.random.default_rng(7).uniform(1.01, 1.9, x.shape[:2]), np.float32), x
        )

    assert named(noise) == ()


def test_a_power_of_two_below_is_a_rounding_before_it_is_another_amax() -> None:
    """Of one row half its range has the next power below as well: few numbers are powers of two."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            power = np.floor(np.log2(np.abs(x).max(axis=2) / TOP)).astype(np.int32)
            codes = e4m3(np.asarray(x * np.exp2(-power)[:, :, None], np.float32))
            for token, slot in enumerate(memory.slots.tolist()):
                memory.write(f"{tensor}_codes", slot, codes[token])
                memory.write(f"{tensor}_scales", slot, (power[token] + 127).astype(np.uint8))

    contract = Contract(scale=Computed("token_head", dtype="ue8m0"), apply="power_of_two")
    alike = False
    for seed in range(6):
        emission = emulate(run, Case(tokens=1, heads=1, dtype="fp32", seed=seed), contract)
        made = diagnose(emission, judge(emission))
        assert {each.fault for each in made} == {"scale-rounded"}
        alike |= any("amax-population" in each.says for each in made)
    assert alike
