"""Both oracles, against each other, against known values, and against ml_dtypes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.errors import FormatError
from kvcheck.formats import bits, exact
from kvcheck.formats.cast import bf16_patterns, fp16_patterns
from kvcheck.formats.decode import decode
from kvcheck.formats.spec import (
    FORMATS,
    Format,
    NanSign,
    NegativeZero,
    Overflow,
    Policy,
    Rounding,
    policy_error,
    with_least,
)

Patterns = npt.NDArray[np.uint32]
Codes = npt.NDArray[np.uint8]
Encode = Callable[..., Codes]

ORACLES = pytest.mark.parametrize("encode", [bits.encode, exact.encode], ids=["bits", "exact"])
PLAIN: tuple[Rounding, ...] = ("rne", "rtz", "half_away")


def _policies(number_format: Format, rounding: Rounding) -> Iterator[Policy]:
    """Every policy of that rounding that the format can have."""
    for overflow in get_args(Overflow):
        for nan in get_args(NanSign):
            for negative_zero in get_args(NegativeZero):
                policy = Policy(rounding, overflow, nan, negative_zero)
                if policy_error(number_format, policy) is None:
                    yield policy


def _one(encode: Encode, value: float, name: str = "e4m3fn", **policy: str) -> int:
    return int(encode(np.array([value], dtype=np.float32), name, **policy)[0])


@pytest.mark.parametrize("rounding", get_args(Rounding))
@pytest.mark.parametrize("name", [*FORMATS, "int8 from -128", "e4m3fn from -240"])
def test_oracles_agree_where_rounding_is_decided(patterns: Patterns, name: str, rounding: Rounding) -> None:
    """All bf16 and fp16 values and all neighbours of ties have the same code in both, under every policy."""
    least = {"int8 from -128": 0x80, "e4m3fn from -240": 0xF7}
    number_format = with_least(name.partition(" ")[0], least[name]) if name in least else FORMATS[name]
    policies = list(_policies(number_format, rounding))
    assert policies
    for policy in policies:
        fast, slow = (oracle.encode_by(patterns, number_format, policy) for oracle in (bits, exact))
        assert np.array_equal(fast, slow), policy


def test_oracles_share_no_code() -> None:
    """The two import nothing of each other, and nothing in common but the formats, as data, and the exceptions."""
    imported = []
    for module in (bits, exact):
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
        imported.append({name for name in names if name.startswith("kvcheck")})
    assert imported[0] & imported[1] == {"kvcheck.errors", "kvcheck.formats.spec"}
    assert not {"kvcheck.formats.exact", "kvcheck.formats.bits", "kvcheck.formats"} & (imported[0] | imported[1])


@pytest.mark.parametrize("rounding", ["via_fp16_rne", "via_fp16_rtz", "via_bf16"])
def test_first_steps_agree(patterns: Patterns, rounding: Rounding) -> None:
    """The first step of two gives the same value in both, also where no code tells: finite values stay below 65536."""
    magnitudes = patterns[(patterns < 0x7F800001)]
    slow = exact._first_step(magnitudes.view(np.float32).astype(np.float64), rounding)
    fast = (
        bf16_patterns(magnitudes)
        if rounding == "via_bf16"
        else fp16_patterns(magnitudes, toward_zero=rounding == "via_fp16_rtz")
    )
    assert np.array_equal(slow, fast.view(np.float32).astype(np.float64))


@ORACLES
@pytest.mark.parametrize(
    ("value", "rounding", "want"),
    [
        (400.199585, "rne", 416.0),
        (400.199585, "via_fp16_rtz", 384.0),
        (272.156555, "rne", 288.0),
        (272.156555, "via_fp16_rtz", 256.0),
        (136.002075, "rne", 144.0),
        (136.002075, "via_fp16_rtz", 128.0),
        (1.0625001, "rne", 1.125),
        (1.0625001, "via_fp16_rtz", 1.0),
        (1.0625001, "via_fp16_rne", 1.0),
        (17.03, "rne", 18.0),
        (17.03, "via_bf16", 16.0),
        (17.03, "via_fp16_rne", 18.0),
        (31.6, "rne", 32.0),
        (31.6, "rtz", 30.0),
        (17.0, "rne", 16.0),
        (17.0, "half_away", 18.0),
        (-17.0, "half_away", -18.0),
        (19.0, "rne", 20.0),
        (464.0, "rne", 448.0),
        (2.0**-10, "rne", 0.0),
        (2.0**-10, "half_away", 2.0**-9),
        (3 * 2.0**-10, "rne", 2 * 2.0**-9),
        (3 * 2.0**-10, "rtz", 2.0**-9),
        (2.0**-140, "rne", 0.0),
    ],
)
def test_known_values(encode: Encode, value: float, rounding: str, want: float) -> None:
    """The values that tell roundings apart have the codes that hardware or arithmetic by hand gives them."""
    assert decode(np.array([_one(encode, value, rounding=rounding)], dtype=np.uint8))[0] == np.float32(want)


@ORACLES
@pytest.mark.parametrize(
    ("name", "value", "policy", "want"),
    [
        ("e4m3fn", 464.0, {"overflow": "nan"}, 0x7E),
        ("e4m3fn", 465.0, {}, 0x7E),
        ("e4m3fn", 465.0, {"overflow": "nan"}, 0x7F),
        ("e4m3fn", -465.0, {"overflow": "nan"}, 0x7F),
        ("e4m3fn", -465.0, {"overflow": "nan", "nan": "keep_sign"}, 0xFF),
        ("e4m3fn", np.inf, {}, 0x7E),
        ("e4m3fn", -np.inf, {}, 0xFE),
        ("e4m3fn", np.inf, {"overflow": "nan"}, 0x7F),
        ("e4m3fn", 479.9, {"overflow": "nan", "rounding": "rtz"}, 0x7E),
        ("e4m3fn", 480.0, {"overflow": "nan", "rounding": "rtz"}, 0x7F),
        ("e4m3fn", 464.0, {"overflow": "nan", "rounding": "half_away"}, 0x7F),
        ("e4m3fn", np.nan, {}, 0x7F),
        ("e4m3fn", -np.nan, {}, 0x7F),
        ("e4m3fn", -np.nan, {"nan": "keep_sign"}, 0xFF),
        ("e4m3fn", np.nan, {"nan": "keep_sign"}, 0x7F),
        ("e4m3fn", -0.0, {}, 0x80),
        ("e4m3fn", -0.0, {"negative_zero": "drop"}, 0x00),
        ("e4m3fn", -(2.0**-11), {}, 0x80),
        ("e4m3fn", -(2.0**-11), {"negative_zero": "drop"}, 0x00),
        ("e4m3fnuz", -0.0, {}, 0x00),
        ("e4m3fnuz", -(2.0**-12), {}, 0x00),
        ("e4m3fnuz", 247.9, {}, 0x7F),
        ("e4m3fnuz", 248.0, {"overflow": "nan"}, 0x80),
        ("e4m3fnuz", np.nan, {}, 0x80),
        ("e5m2", 61439.0, {"overflow": "nan"}, 0x7B),
        ("e5m2", 61440.0, {"overflow": "nan"}, 0x7C),
        ("e5m2", -61440.0, {"overflow": "nan"}, 0xFC),
        ("e5m2", -61440.0, {}, 0xFB),
        ("e5m2", -np.inf, {}, 0xFB),
        ("e5m2", np.nan, {}, 0x7F),
        ("e5m2", 61440.0, {"overflow": "nan", "rounding": "via_fp16_rtz"}, 0x7C),
        ("e5m2", 1e30, {"overflow": "nan", "rounding": "via_fp16_rtz"}, 0x7C),
        ("int8", 0.5, {}, 0x00),
        ("int8", 1.5, {}, 0x02),
        ("int8", -1.5, {}, 0xFE),
        ("int8", 0.5, {"rounding": "half_away"}, 0x01),
        ("int8", -0.9, {"rounding": "rtz"}, 0x00),
        ("int8", 127.5, {}, 0x7F),
        ("int8", -128.0, {}, 0x81),
        ("int8", 1e30, {}, 0x7F),
        ("int8", -np.inf, {}, 0x81),
        ("int8", np.nan, {}, 0x00),
    ],
)
def test_policies(encode: Encode, name: str, value: float, policy: dict[str, str], want: int) -> None:
    """Ends of the range, infinities, NaN and -0 have the codes that each policy names."""
    assert _one(encode, value, name, **policy) == want


@ORACLES
def test_least_value_of_its_own(encode: Encode) -> None:
    """int8 from -128 keeps -128, and a float that stops at -240 stops there and nowhere else."""
    values = np.array([-127.4, -127.6, -1e9, 500.0], dtype=np.float32)
    assert encode(values, with_least("int8", 0x80)).tolist() == [0x81, 0x80, 0x80, 0x7F]
    stopped = decode(encode(values[2:], with_least("e4m3fn", 0xF7)))
    assert stopped.tolist() == [-240.0, 448.0]
    assert decode(encode(np.array([-201.0], dtype=np.float32), with_least("e4m3fn", 0xF7)))[0] == -208.0


@ORACLES
@pytest.mark.parametrize(
    ("name", "third"),
    [
        ("e4m3fn", ml_dtypes.float8_e4m3fn),
        ("e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
        ("e5m2", ml_dtypes.float8_e5m2),
        ("e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
    ],
)
def test_agrees_with_ml_dtypes_where_policies_meet(encode: Encode, patterns: Patterns, name: str, third: type) -> None:
    """ml_dtypes rounds to nearest even and overflows to NaN or infinity: all codes but those of NaN are ours."""
    values = patterns.view(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        theirs: npt.NDArray[np.generic] = values.astype(third)
    ours = encode(values, name, overflow="nan", **({"nan": "keep_sign"} if "uz" not in name else {}))
    nan = np.isnan(theirs.astype(np.float32))
    assert np.array_equal(nan, np.isnan(decode(ours, name)))
    assert np.array_equal(ours[~nan], theirs.view(np.uint8)[~nan])


@ORACLES
@pytest.mark.parametrize("rounding", get_args(Rounding))
@pytest.mark.parametrize("name", FORMATS)
def test_values_of_the_format_keep_their_codes(encode: Encode, name: str, rounding: str) -> None:
    """decode, then encode, is the identity on every code that is a number; int8's -128 saturates."""
    codes = np.arange(256, dtype=np.uint8)
    values = decode(codes, name)
    keep = np.isfinite(values) & ((name != "int8") | (codes != 0x80))
    assert np.array_equal(encode(values[keep], name, rounding=rounding), codes[keep])
    if name == "int8":
        assert encode(values[[0x80]], name, rounding=rounding)[0] == 0x81


@ORACLES
def test_every_code_comes_back_where_nan_keeps_its_sign(encode: Encode) -> None:
    """Under overflow to infinity and signed NaN all 256 codes of e4m3fn come back, and all of e5m2 but NaN payloads."""
    codes = np.arange(256, dtype=np.uint8)
    negative = np.where(codes >= 0x80, np.float32(-1), np.float32(1))
    for name in ("e4m3fn", "e5m2"):
        values = np.copysign(decode(codes, name), negative)
        back = encode(values, name, overflow="nan", nan="keep_sign")
        payload = np.isin(codes & 0x7F, [0x7D, 0x7E]) & (name == "e5m2")
        assert np.array_equal(back, np.where(payload, codes | 0x7F, codes))


FLOATS = st.floats(width=32, allow_nan=False)


@given(FLOATS, FLOATS, st.sampled_from(sorted(FORMATS)), st.sampled_from(get_args(Rounding)))
def test_larger_values_never_have_smaller_codes(a: float, b: float, name: str, rounding: Rounding) -> None:
    """Encoding is monotone: a <= b gives values in the same order, in every format and rounding."""
    low, high = (np.array([each], dtype=np.float32) for each in sorted((a, b)))
    for encode in (bits.encode, exact.encode):
        assert decode(encode(low, name, rounding=rounding), name) <= decode(encode(high, name, rounding=rounding), name)


@given(FLOATS, st.sampled_from(sorted(FORMATS)), st.sampled_from(get_args(Rounding)))
def test_signs_are_symmetric(value: float, name: str, rounding: Rounding) -> None:
    """The code of -x has minus the value of x's code."""
    pair = np.array([value, -value], dtype=np.float32)
    for encode in (bits.encode, exact.encode):
        plus, minus = decode(encode(pair, name, rounding=rounding), name)
        assert plus == -minus


@given(FLOATS, st.sampled_from(sorted(FORMATS)), st.sampled_from(get_args(Rounding)))
def test_encoding_is_idempotent(value: float, name: str, rounding: Rounding) -> None:
    """A value that has been encoded once has the same code again."""
    for encode in (bits.encode, exact.encode):
        once = encode(np.array([value], dtype=np.float32), name, rounding=rounding)
        assert encode(decode(once, name), name, rounding=rounding) == once


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=64), st.sampled_from(sorted(FORMATS)))
def test_oracles_agree_on_any_pattern(words: list[int], name: str) -> None:
    """Any fp32 bit pattern, of any class, has the same code in both."""
    patterns = np.array(words, dtype=np.uint32)
    for rounding in get_args(Rounding):
        assert np.array_equal(
            bits.encode(patterns, name, rounding=rounding), exact.encode(patterns, name, rounding=rounding)
        )


@ORACLES
def test_shapes_strides_and_patterns(encode: Encode) -> None:
    """Results have the input's shape; strides do not matter; uint32 is read as bit patterns."""
    values = np.arange(-12, 12, dtype=np.float32).reshape(2, 3, 4)
    codes = encode(values)
    assert codes.shape == (2, 3, 4)
    assert codes.dtype == np.uint8
    assert np.array_equal(encode(values.transpose(2, 0, 1)), codes.transpose(2, 0, 1))
    assert np.array_equal(encode(values.view(np.uint32)), codes)
    assert encode(np.zeros((0, 5), dtype=np.float32)).shape == (0, 5)
    assert encode(np.array(1.0, dtype=np.float32)) == 0x38
    assert encode(np.broadcast_to(np.float32(2), (3, 2))).tolist() == [[0x40, 0x40]] * 3


def test_fast_oracle_works_across_its_blocks() -> None:
    """More values than one block holds, and a last block that is short, are all encoded."""
    values = np.linspace(-500, 500, (1 << 18) + 12345, dtype=np.float32)
    assert np.array_equal(bits.encode(values), exact.encode(values))


def test_fast_oracle_encodes_few_as_many() -> None:
    """Few values take a shorter way to the same table, up to a size and beside it."""
    patterns = np.random.default_rng(5).integers(0, 1 << 32, bits._FEW + 1, np.uint64).astype(np.uint32)
    many = bits.encode(patterns)
    assert np.array_equal(bits.encode(patterns[:-1]), many[:-1])
    assert np.array_equal(np.concatenate([bits.encode(patterns[:7]), bits.encode(patterns[7:])]), many)
    assert np.array_equal(exact.encode(patterns), many)


@ORACLES
def test_what_cannot_be_encoded_is_refused(encode: Encode) -> None:
    """Other dtypes, unknown formats and policies that do not fit raise FormatError."""
    with pytest.raises(FormatError, match="cannot encode float64; expected float32 values or uint32"):
        encode(np.zeros(3))
    with pytest.raises(FormatError, match="number format 'fp8' is not known"):
        encode(np.zeros(3, dtype=np.float32), "fp8")
    with pytest.raises(FormatError, match="int8 has no NaN"):
        encode(np.zeros(3, dtype=np.float32), "int8", overflow="nan")
