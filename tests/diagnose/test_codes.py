"""Faults of codes: encoders with one are named by the codes that they leave, in every form, and right ones are not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from judge.emulate import COMPUTED, Kernel, Memory, amax_scale, e4m3, emulate, given_store, store

from kvcheck.contract import Contract, Form, Given
from kvcheck.diagnose import diagnose, observable
from kvcheck.formats import bits
from kvcheck.formats.decode import decode
from kvcheck.formats.spec import FORMATS
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint8]
Encoder = Callable[[Floats], Codes]

GIVEN = Contract(scale=Given("tensor"))
CASE = Case(dtype="fp32")
TRAPS = Case(dtype="fp32", k_values="traps", v_values="traps")
MANY = Case(dtype="fp32", tokens=24)

SMALL = Case(dtype="fp32", k_values="subnormal_codes", v_values="subnormal_codes")
ZEROS = Case(dtype="fp32", k_values="negative_zero", v_values="negative_zero")
NANS = Case(dtype="fp32", k_values="nan", v_values="nan")


def kernel(encoder: Encoder, limit: float = 448, first_head: int = 0) -> Kernel:
    """A store with another encoder, from one head on, and with another largest value."""

    def run(memory: Memory) -> None:
        store(memory)
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x) if limit == 448 else np.abs(x).max(2) / np.float32(limit)
            with np.errstate(all="ignore"):
                scaled = x / scale[:, :, None]
                codes = np.where(np.arange(x.shape[1])[:, None] >= first_head, encoder(scaled), e4m3(scaled))
            for token, slot in enumerate(memory.slots):
                memory.write(f"{tensor}_codes", int(slot), codes[token])
                memory.write(f"{tensor}_scales", int(slot), scale[token])

    return run


def found(run: Kernel, case: Case = CASE) -> tuple[Diagnosis, ...]:
    """Emulate, judge, diagnose."""
    emission = emulate(run, case)
    return diagnose(emission, judge(emission))


def lost_carry(x: Floats) -> Codes:
    """The exponent is cut off, the mantissa rounded."""
    low, right = bits.encode(x, rounding="rtz"), e4m3(x)
    normal = ((low & 0x7F) >= 8) & ((low & 0x7F) < 0x7E)
    return np.where(normal, (low & 0xF8) | (right & 7), right)


def saturated(limit: float) -> Encoder:
    """448 from a limit on."""
    return lambda x: np.where(np.abs(x) >= limit, e4m3(np.sign(x) * 448), e4m3(x))


def half_up(x: Floats) -> Codes:
    """Ties go up: away from zero where values are positive, toward it where they are negative."""
    down = bits.encode(np.nextafter(x, np.float32(0)))
    return np.where(x > 0, bits.encode(x, rounding="half_away"), down)


def half_added(x: Floats) -> Codes:
    """Ties away from zero, by half a step that is added in fp32: a subnormal just below a tie is rounded up with it."""
    magnitude = np.abs(x)
    sums = (np.minimum(magnitude, np.float32(2**-6)) * np.float32(512) + np.float32(0.5)).astype(np.uint8)
    sign = np.where(np.signbit(x), 0x80, 0).astype(np.uint8)
    return np.where(magnitude < 2**-6, sums | sign, bits.encode(x, rounding="half_away"))


def noise(x: Floats) -> Codes:
    """Rounded to either side by a noise that does not come from the value."""
    heads = np.random.default_rng(5).random(x.shape) < 0.5
    away = bits.encode(x + np.sign(x) * np.abs(x) * np.float32(2**-4) * heads, rounding="rtz")
    low = bits.encode(x, rounding="rtz")
    return np.where((np.abs(x) >= 2**-6) & np.isfinite(x), away, low)


@pytest.mark.parametrize(
    ("encoder", "fault", "case"),
    [
        (lost_carry, "lost-carry", CASE),
        (lambda x: np.where(e4m3(x) & 0x78, e4m3(x), e4m3(x) & 0x80), "subnormal-flush", SMALL),
        (lambda x: np.where(np.abs(x) < 2**-6, e4m3(x) & 0x80, e4m3(x)), "subnormal-flush", SMALL),
        (lambda x: np.where(e4m3(x) == 0x80, 0, e4m3(x)), "negative-zero", ZEROS),
        (saturated(256), "early-saturation", CASE),
        (saturated(300), "early-saturation", CASE),
        (lambda x: e4m3(np.clip(x, -240, 240)), "early-saturation", CASE),
        (lambda x: bits.encode(x, "e5m2"), "format-confusion", CASE),
        (lambda x: bits.encode(x, "e4m3fnuz"), "format-confusion", CASE),
        (lambda x: bits.encode(x, "int8"), "format-confusion", CASE),
        (lambda x: e4m3(decode(bits.encode(x, "e5m2"), FORMATS["e5m2"])), "format-confusion", CASE),
        (lambda x: e4m3(x) & 0x7F, "format-confusion", CASE),
        (lambda x: e4m3(x) ^ 0x40, "format-confusion", MANY),
        (lambda x: np.nan_to_num(x).astype(np.int64).astype(np.uint8), "numeric-store", CASE),
        (lambda x: np.clip(np.nan_to_num(x), 0, 255).astype(np.uint8), "numeric-store", CASE),
        (lambda x: np.where(x < 0, bits.encode(x, rounding="rtz"), e4m3(x)), "rounding-mode", CASE),
        (lambda x: np.where(np.isnan(x), 0x7E, e4m3(x)), "nan-laundered", NANS),
        (lambda x: np.where(np.isnan(x), 0, e4m3(x)), "nan-laundered", NANS),
        (half_up, "rounding-mode", Case(k_values="midpoints", v_values="midpoints")),
        (noise, "rounding-mode", CASE),
    ],
)
def test_an_encoder_is_named_by_its_codes(encoder: Encoder, fault: str, case: Case) -> None:
    """Every wrong code of both tensors is explained by the one fault, which comes first."""
    made = found(kernel(encoder), case)
    assert [each.fault for each in made] == [fault, fault]
    assert all(each.explains == each.of > 0 for each in made)


@pytest.mark.parametrize(("limit", "said"), [(256.0, 256.0), (300.0, 300.0), (384.0, 384.0)])
def test_a_limit_is_recovered(limit: float, said: float) -> None:
    """The limit lies between the largest value that is kept and the least that is not."""
    made = found(kernel(saturated(limit)), Case(dtype="fp32", tokens=16, head_dim=512))
    assert all(abs(float(each.evidence["limit"]) - said) <= 2 for each in made)  # type: ignore[arg-type]
    assert {each.fault for each in made} == {"early-saturation"}


def test_a_clamp_is_recovered() -> None:
    """What is clamped has the clamp's own code."""
    made = found(kernel(lambda x: e4m3(np.clip(x, -416, 416))), Case(dtype="fp32", tokens=32))
    assert [each.evidence.get("limit") for each in made] == [416.0, 416.0]


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        (half_added, "with ties away from zero, half a step being added in fp32"),
        (lambda x: np.where(np.abs(x) < 2**-6, half_added(x), e4m3(x)), "added in fp32 where they are subnormal"),
        (lambda x: bits.encode(x, rounding="half_away"), "with ties away from zero"),
    ],
)
def test_half_a_step_added_in_fp32_is_more_than_ties_away(encoder: Encoder, words: str) -> None:
    """The sum is rounded itself: what lies an ulp below half of the least code goes up, which is no tie."""
    made = found(kernel(encoder), Case(dtype="fp32", k_values="midpoints", v_values="midpoints", tokens=16))
    assert len(made) == 2
    for each in made:
        assert (each.fault, each.explains) == ("rounding-mode", each.of)
        assert each.says.partition("; explains")[0].endswith(words)


def test_a_fault_in_some_heads_alone_is_named() -> None:
    """Heads that are right do not speak against what the others show."""
    made = found(kernel(lost_carry, first_head=1))
    assert [(each.fault, each.explains == each.of) for each in made] == [("lost-carry", True)] * 2


def test_a_rounding_is_named_by_a_wrong_scale() -> None:
    """Codes follow from the emitted scale, whether that one is right or not."""
    made = found(kernel(DOWN, limit=240))
    assert ("rounding-mode", "k") in {(each.fault, each.tensor) for each in made}


def DOWN(x: Floats) -> Codes:  # noqa: N802 - reads as a constant
    """Away from zero where values are negative, toward it where they are positive."""
    low = bits.encode(x, rounding="rtz")
    inexact = (bits_value(low) != x) & ((low & 0x7F) < 0x7E)
    return np.asarray(np.where((x < 0) & inexact, low + 1, low), np.uint8)


def bits_value(codes: Codes) -> Floats:
    """The values of codes."""
    import ml_dtypes  # noqa: PLC0415

    return np.asarray(codes.view(ml_dtypes.float8_e4m3fn), np.float32)


def given_run(encoder: Callable[[Memory, str, Floats], Codes]) -> Kernel:
    """A store with given scales and another encoder."""

    def run(memory: Memory) -> None:
        for tensor, scale in (("k", 0.125), ("v", 0.0625)):
            x = memory.read(tensor)
            codes = encoder(memory, tensor, x / np.float32(scale))
            for token, slot in enumerate(memory.slots):
                memory.write(f"{tensor}_codes", int(slot), codes[token])

    return run


@pytest.mark.parametrize("byte", [0, 1])
def test_bytes_of_the_source_are_named(byte: int) -> None:
    """A byte of each element that is stored for its code, the low or the high one."""

    def encoder(memory: Memory, tensor: str, scaled: Floats) -> Codes:  # noqa: ARG001
        upper = memory.read(tensor).view(np.uint32) >> np.uint32(16 + 8 * byte)
        return np.asarray(upper & np.uint32(0xFF), np.uint8)

    emission = emulate(given_run(encoder), Case(dtype="bf16"), GIVEN, Form(scales="none"))
    made = diagnose(emission, judge(emission))
    assert [(each.fault, each.explains == each.of) for each in made] == [("reinterpreted-source", True)] * 2


@pytest.mark.parametrize("limit", [448.0, 464.0])
def test_overflow_to_nan_is_named(limit: float) -> None:
    """NaN for what is beyond the largest value, or for what rounds beyond it."""
    case = Case(k_values="overflow", v_values="overflow")
    run = given_run(lambda memory, tensor, x: np.where(np.abs(x) > limit, 0x7F, e4m3(x)))  # noqa: ARG005
    emission = emulate(run, case, GIVEN, Form(scales="none"))
    made = diagnose(emission, judge(emission))
    assert [(each.fault, each.explains == each.of) for each in made] == [("overflow-to-nan", True)] * 2


def test_right_kernels_are_diagnosed_with_nothing() -> None:
    """No form gives anything where all codes are right."""
    for case in (CASE, TRAPS, Case(dtype="bf16", k_values="midpoints")):
        assert found(store, case) == ()
    emission = emulate(given_store(0.125, 0.0625), Case(), GIVEN, Form(scales="none"))
    assert diagnose(emission, judge(emission)) == ()


def turned(codes: Codes) -> Codes:
    """Their nibbles exchanged."""
    return np.asarray(codes << np.uint8(4) | codes >> np.uint8(4), np.uint8)


def test_another_encoding_is_recovered_as_a_table() -> None:
    """An encoding that nobody knows is told by each code having one other, everywhere; what it is, is said by three."""
    made = found(kernel(lambda x: turned(e4m3(x))), MANY)
    assert [(each.fault, each.explains == each.of > 8000) for each in made] == [("format-confusion", True)] * 2
    assert "K's codes are each one other than the right one: 0xf0 for 0x0f, 0x52 for 0x25, " in " ".join(
        each.says for each in made
    )


def test_a_code_that_is_not_always_the_same_is_no_table() -> None:
    """One token in eight has right codes: then no table gives the rest, and two codes of each are chance."""

    def run(memory: Memory) -> None:
        store(memory)
        for slot in memory.slots[::2]:
            memory.write("v_codes", int(slot), turned(memory.row("v_codes", int(slot))))

    assert "format-confusion" in {each.fault for each in found(run, MANY)}
    mixed = found(kernel(lambda x: np.where(np.arange(x.shape[2]) % 2, turned(e4m3(x)), e4m3(x))), MANY)
    assert "format-confusion" not in {each.fault for each in mixed}


def test_few_rows_leave_a_table_open() -> None:
    """Codes that are met once or twice say nothing of an encoding: any bytes would have a table."""
    made = found(kernel(lambda x: turned(e4m3(x))), Case(dtype="fp32", tokens=1, heads=1, head_dim=32))
    assert not {each.fault for each in made} & {"format-confusion"}


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        (lambda codes: np.where(codes >= 0x80, np.uint8(0x80) | (np.uint8(0) - codes), codes), "a sign bit and a"),
        (lambda codes: np.where(codes >= 0x80, np.uint8(0) - codes, codes), "those of magnitudes, without a sign"),
        (lambda codes: codes ^ np.uint8(0x80), "those of int8 plus 128"),
        (lambda codes: np.uint8(0) - codes, "those of values with the other sign"),
    ],
)
def test_integers_of_another_kind_are_named(encoder: Callable[[Codes], Codes], words: str) -> None:
    """A sign bit and a magnitude, a magnitude alone, an offset: all of int8's codes are explained by which it is."""
    contract = Contract(format="int8", scale=Given("tensor"))
    run = given_run(lambda memory, tensor, x: encoder(bits.encode(x, "int8")))  # noqa: ARG005
    emission = emulate(run, Case(), contract, Form(codes="int8", scales="none"))
    made = diagnose(emission, judge(emission))
    assert [(each.fault, each.explains == each.of > 0) for each in made] == [("format-confusion", True)] * 2
    assert all(words in each.says for each in made)


@pytest.mark.parametrize("values", ["normal*5", "nan", "overflow*2^-3"])
@pytest.mark.parametrize("nans", [False, True])
def test_a_sign_that_is_turned_is_named_whatever_the_values_are(values: str, nans: bool) -> None:
    """The largest value too, which has other accounts; NaN with another sign, or without one."""

    def encoder(x: Floats) -> Codes:
        codes = e4m3(x)
        return np.where(np.isnan(x) & ~np.bool_(nans), codes, codes ^ np.uint8(0x80))

    made = found(kernel(encoder), msgspec.structs.replace(CASE, k_values=values, v_values=values))
    assert {(each.fault, each.tensor) for each in made} == {("format-confusion", "k"), ("format-confusion", "v")}
    assert all("those of values with the other sign" in each.says and each.explains == each.of for each in made)


def test_random_codes_are_none_of_them() -> None:
    """Garbage is not explained."""
    codes = np.random.default_rng(1)
    names = {each.fault for each in found(kernel(lambda x: codes.integers(0, 256, x.shape).astype(np.uint8)))}
    assert not names & {"lost-carry", "format-confusion", "numeric-store", "early-saturation", "rounding-mode"}


@pytest.mark.parametrize("fault", ["subnormal-flush", "lost-carry", "overflow-to-nan"])
def test_zeros_show_no_fault(fault: str) -> None:
    """Rows of zeros could have shown none of them."""
    emission = emulate(store, msgspec.structs.replace(CASE, k_values="all_zero", v_values="all_zero"), COMPUTED)
    assert fault not in observable(emission, judge(emission))


@pytest.mark.parametrize("values", ["normal", "nan", "all_zero"])
def test_whatever_makes_nan_shows_what_launders_it(values: str) -> None:
    """A value that is NaN does, and 0 / 0, where nothing keeps a scale from zero."""
    emission = emulate(store, msgspec.structs.replace(CASE, k_values=values), COMPUTED)
    assert ("nan-laundered" in observable(emission, judge(emission))) == (values != "normal")


def test_normal_values_show_lost_carries_and_no_overflow() -> None:
    """With an amax scale nothing overflows, so that a pass says nothing of it."""
    emission = emulate(store, CASE)
    seen = observable(emission, judge(emission))
    assert {"lost-carry", "subnormal-flush", "early-saturation", "format-confusion", "numeric-store"} <= set(seen)
    assert "overflow-to-nan" not in seen


def test_zeros_of_the_wrong_sign_are_no_whole_numbers() -> None:
    """A zero is a whole number whatever its sign: where all are zeros, none shows that values were made so."""

    def encoder(memory: Memory, tensor: str, x: Floats) -> Codes:
        del memory, tensor
        return np.asarray(e4m3(x) ^ np.uint8(0x80), np.uint8)

    case = Case(dtype="fp32", k_values="normal*2^-20", v_values="normal*2^-20")
    contract = Contract(scale=Given("tensor"))
    emission = emulate(given_run(encoder), case, contract, Form(scales="none"))
    made = diagnose(emission, judge(emission))
    assert {each.fault for each in made} == {"format-confusion"}
    assert all("rounding-mode" not in each.says for each in made)


def test_a_sign_is_turned_of_what_has_one() -> None:
    """In a format without a negative zero that code is NaN: zeros stay."""
    contract = Contract(format="e4m3fnuz", scale=Given("tensor"))

    def encoder(memory: Memory, tensor: str, x: Floats) -> Codes:
        del memory, tensor
        return bits.encode(-x, "e4m3fnuz")

    case = Case(dtype="fp32", k_values="subnormal_codes", v_values="subnormal_codes")
    emission = emulate(given_run(encoder), case, contract, Form(scales="none"))
    made = diagnose(emission, judge(emission))
    assert {(each.fault, each.explains == each.of) for each in made} == {("format-confusion", True)}
    assert all("those of values with the other sign" in each.says for each in made)
