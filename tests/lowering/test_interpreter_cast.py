"""The interpreter's conversions, replaced: against the exact oracle, ml_dtypes and torch, and through real kernels."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.errors import SelectionError
from kvcheck.formats import exact
from kvcheck.formats.decode import decode
from kvcheck.kernels import conversions
from kvcheck.lowering import interpreter_probe
from kvcheck.lowering.archs import CastModel, cast_model
from kvcheck.lowering.interpreter_cast import conversion, corrected, install
from kvcheck.lowering.interpreter_errors import NotCompiledError, NotModelledError, unjudged
from kvcheck.lowering.interpreter_probe import interpret, interpreter_error, probe, probe_values

TWO_STEPS, ONE_STEP = cast_model("sm_89", "3.8.0"), cast_model("sm_90")


@dataclass(frozen=True)
class Named:
    """Stands for one of Triton's types, or of its rounding modes."""

    name: str


FP32, BF16, FP16, E4M3, E5M2 = (Named(name) for name in ("fp32", "bf16", "fp16", "fp8e4nv", "fp8e5"))
NEAREST, TOWARD_ZERO = Named("RTNE"), Named("RTZ")


@pytest.fixture(scope="module")
def values() -> npt.NDArray[np.float32]:
    """Values of every size, and neighbours of ties: 2^17 random patterns, all of fp16, the probes."""
    random = np.random.default_rng(4).integers(0, 1 << 32, 1 << 17, dtype=np.uint32).view(np.float32)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    near = (halves.view(np.uint32) + np.uint32(1)).view(np.float32)
    return np.concatenate([random, halves, near, probe_values()])


@pytest.mark.parametrize("model", [TWO_STEPS, ONE_STEP], ids=lambda model: model.arch)
@pytest.mark.parametrize(("result", "name"), [(E4M3, "e4m3fn"), (E5M2, "e5m2")])
def test_fp32_is_cast_as_the_model_says(
    values: npt.NDArray[np.float32], model: CastModel, result: Named, name: str
) -> None:
    """The exact oracle, which shares no code with it, has the same codes."""
    assert model.fp32 is not None
    found = conversion(model)(values, FP32, result, NEAREST)
    assert np.array_equal(found, exact.encode(values, name, rounding=model.fp32))


@pytest.mark.parametrize(
    ("value", "two_steps", "one_step"),
    [(400.199585, 0x7C, 0x7D), (272.156555, 0x78, 0x79), (136.002075, 0x70, 0x71), (1.0625001, 0x38, 0x39)],
)
def test_two_steps_are_a_step_short_at_known_values(value: float, two_steps: int, one_step: int) -> None:
    """Codes written down, not computed."""
    probes = np.array([value, -value], dtype=np.float32)
    assert conversion(TWO_STEPS)(probes, FP32, E4M3, NEAREST).tolist() == [two_steps, two_steps | 0x80]
    assert conversion(ONE_STEP)(probes, FP32, E4M3, NEAREST).tolist() == [one_step, one_step | 0x80]


def test_carries_saturation_nan_and_zero() -> None:
    """Where the interpreter itself goes wrong: codes written down."""
    right = {31.6: 0x60, 126.24: 0x70, 464: 0x7E, 465: 0x7E, 500: 0x7E, np.inf: 0x7E, -np.inf: 0xFE, -0.0: 0x80}
    probes = np.array([*right, np.nan, -np.nan], dtype=np.float32)
    for model in (TWO_STEPS, ONE_STEP):
        assert conversion(model)(probes, FP32, E4M3, NEAREST).tolist() == [*right.values(), 0x7F, 0x7F]


@pytest.mark.parametrize("model", [TWO_STEPS, ONE_STEP], ids=lambda model: model.arch)
def test_all_of_fp16_and_bf16_are_cast_to_nearest(model: CastModel) -> None:
    """2^16 inputs each, in one step on every arch."""
    every = np.arange(1 << 16, dtype=np.uint16)
    wide = (every.astype(np.uint32) << np.uint32(16)).view(np.float32)
    assert np.array_equal(conversion(model)(every, BF16, E4M3, NEAREST), exact.encode(wide))
    half = every.view(np.float16)
    assert np.array_equal(conversion(model)(half, FP16, E4M3, NEAREST), exact.encode(half.astype(np.float32)))


@pytest.mark.parametrize(
    ("source", "name"),
    [(E4M3, "e4m3fn"), (E5M2, "e5m2"), (Named("fp8e4b8"), "e4m3fnuz"), (Named("fp8e5b16"), "e5m2fnuz")],
)
@pytest.mark.parametrize("result", [FP32, FP16, BF16], ids=lambda result: result.name)
def test_all_codes_are_decoded(source: Named, name: str, result: Named) -> None:
    """256 codes, as ml_dtypes decodes them; 0x7F of e4m3fn is NaN, not 480."""
    codes = np.arange(256, dtype=np.uint8)
    found = conversion(ONE_STEP)(codes, source, result, None)
    dtype = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}[result.name]
    wide = found.view(dtype).astype(np.float32)
    right = codes.view(getattr(ml_dtypes, f"float8_{name}")).astype(np.float32)
    assert np.array_equal(wide, right, equal_nan=True)
    assert np.array_equal(np.signbit(wide[right == 0]), np.signbit(right[right == 0]))


def test_fp32_becomes_bf16_to_nearest_even(values: npt.NDArray[np.float32]) -> None:
    """As ml_dtypes has it; any NaN stays one."""
    found = conversion(ONE_STEP)(values, FP32, BF16, None).view(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        right = values.astype(ml_dtypes.bfloat16)
    assert np.array_equal(found.astype(np.float32), right.astype(np.float32), equal_nan=True)


def test_fp32_becomes_fp16_to_nearest_even(values: npt.NDArray[np.float32]) -> None:
    """As numpy has it."""
    found = conversion(ONE_STEP)(values, FP32, FP16, NEAREST).view(np.float16)
    with np.errstate(all="ignore"):
        assert np.array_equal(found, values.astype(np.float16), equal_nan=True)


@pytest.mark.parametrize(("result", "largest"), [(BF16, 3.3895314e38), (FP16, 65504.0)], ids=["bf16", "fp16"])
def test_toward_zero_never_grows(values: npt.NDArray[np.float32], result: Named, largest: float) -> None:
    """Magnitudes shrink by less than a step, the largest finite ones stay finite, NaN and infinity stay."""
    found = conversion(ONE_STEP)(values, FP32, result, TOWARD_ZERO)
    wide = found.view(np.float16 if result is FP16 else ml_dtypes.bfloat16).astype(np.float32)
    finite = np.isfinite(values)
    assert np.array_equal(np.isnan(wide), np.isnan(values))
    assert np.array_equal(np.isinf(wide), np.isinf(values))
    assert (np.abs(wide[finite]) <= np.abs(values[finite])).all()
    assert np.abs(wide[finite]).max() == np.float32(largest)
    again = conversion(ONE_STEP)(wide, FP32, result, NEAREST)
    assert np.array_equal(again[finite], found[finite])


@given(st.lists(st.floats(width=32), min_size=1, max_size=8), st.booleans())
def test_shapes_are_kept(numbers: list[float], transposed: bool) -> None:
    """Scalars, rows and views that are not dense."""
    block = np.array([numbers, numbers], dtype=np.float32)
    block = block.T if transposed else block
    found = conversion(ONE_STEP)(block, FP32, E4M3, NEAREST)
    assert found.shape == block.shape
    assert np.array_equal(found, exact.encode(block))
    assert conversion(ONE_STEP)(np.array(numbers[0], dtype=np.float32), FP32, E4M3, NEAREST).shape == ()


@pytest.mark.parametrize(
    ("source", "result", "mode"),
    [
        (FP32, E4M3, TOWARD_ZERO),
        (FP32, Named("fp8e4b8"), NEAREST),
        (FP32, Named("fp8e4b15"), NEAREST),
        (E5M2, E4M3, NEAREST),
        (Named("fp64"), E4M3, NEAREST),
        (Named("fp8e4b15"), FP32, None),
    ],
)
def test_what_has_no_model_is_said(source: Named, result: Named, mode: Named | None) -> None:
    """Never a guess."""
    data = np.zeros(4, dtype=np.float32 if source is FP32 else np.float64 if source.name == "fp64" else np.uint8)
    with pytest.raises(NotModelledError, match=f"no model of a conversion from {source.name}"):
        conversion(ONE_STEP)(data, source, result, mode)


def test_amd_has_no_model() -> None:
    """Its codes are not known; its decoding is the format's."""
    convert = conversion(cast_model("gfx942"))
    with pytest.raises(NotModelledError, match="on gfx942"):
        convert(np.ones(4, dtype=np.float32), FP32, E4M3, NEAREST)
    assert convert(np.array([0x7E], dtype=np.uint8), E4M3, FP32, None).view(np.float32).tolist() == [448.0]


def test_what_cannot_be_judged_is_found_behind_the_interpreters_wrapping() -> None:
    """A kernel's exception leads back to the conversion that raised it; another exception leads nowhere."""
    with corrected("sm_80"), pytest.raises(Exception, match="fp8e4nv") as raised:
        interpret(conversions.cast, probe_values(), np.zeros(128, dtype=np.uint8))
    assert isinstance(unjudged(raised.value), NotCompiledError)
    with corrected("gfx942"), pytest.raises(Exception, match="no model") as raised:
        interpret(conversions.cast, probe_values(), np.zeros(128, dtype=np.uint8))
    assert isinstance(unjudged(raised.value), NotModelledError)
    assert unjudged(ValueError("another")) is None


def test_archs_without_fp8_refuse_both_directions() -> None:
    """In the compiler's words; e5m2 is another thing, of which there is no model there."""
    convert = conversion(cast_model("sm_80"))
    with pytest.raises(NotCompiledError, match="fp8e4nv not supported in this architecture"):
        convert(np.ones(4, dtype=np.float32), FP32, E4M3, NEAREST)
    with pytest.raises(NotCompiledError, match="fp8e4nv not supported in this architecture"):
        convert(np.ones(4, dtype=np.uint8), E4M3, FP32, None)
    with pytest.raises(NotModelledError):
        convert(np.ones(4, dtype=np.float32), FP32, E5M2, NEAREST)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_the_self_test_passes_when_corrected(arch: str) -> None:
    """Real kernels through the interpreter, and the model against the compiler."""
    with corrected(arch):
        assert probe(arch) is None


def test_the_self_test_fails_as_triton_is() -> None:
    """The interpreter's own conversion is found wrong; afterwards too, since `corrected` takes itself back."""
    before = interpreter_error("sm_90")
    assert before is not None
    assert "the interpreter's cast of 1.01171875 to bf16 gives 0x3F81, expected 0x3F82" in before
    with corrected("sm_90"):
        assert interpreter_error("sm_90") is None
    assert interpreter_error("sm_90") == before


def test_the_self_test_tells_archs_apart() -> None:
    """sm_90's conversion is not that of sm_89 in two steps, and none refuses as sm_80 does."""
    with corrected("sm_90"):
        error = interpreter_error("sm_80")
        assert error is not None
        assert "casts to fp8e4nv, which sm_80 cannot" in error
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(interpreter_probe, "cast_model", lambda _: TWO_STEPS)
            error = interpreter_error("sm_89")
        assert error is not None
        assert "cast of 400.19" in error
        assert "gives 0x7D, expected 0x7C" in error


def test_the_self_test_sees_a_lost_sign_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion that is wrong for -0 alone fails."""
    import triton.runtime.interpreter as module  # noqa: PLC0415 - private

    with corrected("sm_90"):
        right = module._convert_float

        def drops(data: npt.NDArray[np.generic], source: Named, result: Named, mode: object) -> npt.NDArray[np.generic]:
            found: npt.NDArray[np.generic] = right(data, source, result, mode)
            return np.where(found == 0x80, 0, found).astype(found.dtype) if result.name == "fp8e4nv" else found

        monkeypatch.setattr(module, "_convert_float", drops)
        error = interpreter_error("sm_90")
        assert error is not None
        assert "cast of -0.0 to e4m3fn gives 0x00, expected 0x80" in error


def test_the_self_test_sees_a_wrong_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    """0x7F as 480."""
    import triton.runtime.interpreter as module  # noqa: PLC0415

    with corrected("sm_90"):
        right = module._convert_float

        def decodes(
            data: npt.NDArray[np.generic], source: Named, result: Named, mode: object
        ) -> npt.NDArray[np.generic]:
            found: npt.NDArray[np.generic] = right(data, source, result, mode)
            return np.where(data == 0x7F, np.float32(480).view(np.uint32), found) if source.name == "fp8e4nv" else found

        monkeypatch.setattr(module, "_convert_float", decodes)
        error = interpreter_error("sm_90")
        assert error is not None
        assert "decodes 0x7F to 480.0, expected nan" in error


def test_an_interpreter_that_raises_fails_the_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an unknown version does, the answer is a line."""
    monkeypatch.setattr(interpreter_probe, "interpret", lambda *_, **__: 1 / 0)
    error = interpreter_error("sm_90")
    assert error is not None
    assert "self-test raised ZeroDivisionError: division by zero" in error


def test_an_unknown_arch_is_refused() -> None:
    """Before anything is replaced."""
    with pytest.raises(SelectionError, match="sm_87"):
        install("sm_87")


def test_without_triton_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe says so instead."""
    import sys  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "triton.runtime.interpreter", None)
    install("sm_90")
    error = interpreter_error("sm_90")
    assert error is not None
    assert "self-test raised" in error


def test_a_store_casts_as_an_explicit_cast_does() -> None:
    """Through a pointer to e4m3fn, 128 probes."""
    values = probe_values()
    with corrected("sm_90"):
        explicit = interpret(conversions.cast, values, np.zeros(128, dtype=np.uint8))
        implicit = interpret(conversions.store_cast, values, np.zeros(128, dtype=np.uint8), float8=True)
    assert np.array_equal(explicit, implicit)
    assert np.array_equal(explicit, exact.encode(values))


def test_bf16_products_are_torchs() -> None:
    """x · x in bf16 for all finite positive bf16 values up to 2^60, as torch rounds it on the CPU."""
    every = torch.arange(0x0080, 0x5D80, dtype=torch.int16).view(torch.bfloat16)
    values = every.float().numpy()[: 1 << 14]
    with corrected("sm_90"):
        found = interpret(conversions.compute_bf16, values, np.zeros(4 << 14, dtype=np.float32))
    right = (every * every).float().numpy()[: 1 << 14]
    assert np.array_equal(found[: 1 << 14], right)


def test_decode_is_the_formats() -> None:
    """All 256 codes through a kernel."""
    codes = np.arange(256, dtype=np.uint8)
    with corrected("sm_89"):
        found = interpret(conversions.decode, codes, np.zeros(256, dtype=np.float32))
    assert np.array_equal(found, decode(codes), equal_nan=True)


def test_a_loop_runs_to_a_loaded_bound() -> None:
    """Under any numpy, of which 2.4 refuses what older interpreters do; behind the block all is as it was."""
    module = importlib.import_module("triton.runtime.interpreter")
    before = module._patch_lang_tensor
    with corrected("sm_90"):
        install("sm_89")  # a second time: nothing is wrapped twice
        assert module._patch_lang_tensor.kvcheck_original is before
        found = interpret(conversions.count, np.array([2, 0, 0, 0], dtype=np.int32), np.zeros(4, dtype=np.int32))
    assert found.tolist() == [1, 1, 0, 0]
    assert module._patch_lang_tensor is before


def test_a_loop_that_ends_early_fails_the_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what was stored."""
    monkeypatch.setattr(interpreter_probe, "interpret", lambda *_, **__: np.array([1, 1, 0, 0]))
    error = interpreter_probe._scalar_error()
    assert error is not None
    assert "a loaded bound of 3 stored [1, 1, 0, 0]" in error
