"""Reading PTX, and what the installed Triton compiles a cast to."""

from __future__ import annotations

import pytest

from kvcheck.errors import SelectionError
from kvcheck.formats.spec import Rounding
from kvcheck.lowering import cast_lowering
from kvcheck.lowering.archs import CastModel, Source, cast_model, installed, release
from kvcheck.lowering.cast_lowering import casts, compiled_rounding, divisions, model_error, rounding_of

PTX = """
.version 8.7
.target sm_89
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %rd1, %r1;
    cvt.rn.f16x2.e4m3x2 %r9, %rs7;
    cvt.f32.f16 %r7, %rs4;
    cvt.rzi.u16.bf16 %rs8, %rs4;
    cvt.rn.f32.s32 %r7, %r1;
    @%p1 cvt.rz.f16.f32 %rs1, %r2;
    cvt.rz.f16.f32 %rs2, %r3;
    cvt.rn.satfinite.e4m3x2.f16x2 %rs3, %r4;
    div.full.f32 %r5, %r2, %r3;
    rcp.approx.ftz.f32 %r6, %r3;
    div.rn.f32 %r5, %r2, %r3;
    div.s32 %r5, %r2, %r3;
"""

AMDGCN = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
	v_cvt_scalef32_pk_fp8_f32 v0, v1, v2, 1.0
	v_cvt_f32_fp8_e32 v0, v1
	v_div_scale_f32 v3, vcc, v1, v2, v1
	v_rcp_f32_e32 v4, v3
"""


def test_casts_are_those_that_round() -> None:
    """Widening and address arithmetic are left out, predicated instructions are not."""
    assert casts(PTX) == {"cvt.rn.satfinite.e4m3x2.f16x2": 1, "cvt.rz.f16.f32": 2}
    assert casts(AMDGCN) == {"v_cvt_scalef32_pk_fp8_f32": 1}


def test_divisions_are_those_of_floats() -> None:
    """Reciprocals included, integers not."""
    assert divisions(PTX) == {"div.full.f32": 1, "div.rn.f32": 1, "rcp.approx.ftz.f32": 1}
    assert divisions(AMDGCN) == {"v_div_scale_f32": 1, "v_rcp_f32_e32": 1}


@pytest.mark.parametrize(
    ("instructions", "rounding"),
    [
        (["cvt.rn.satfinite.e4m3x2.f32"], "rne"),
        (["cvt.rn.satfinite.e4m3x2.bf16x2"], "rne"),
        (["cvt.rz.f16.f32", "cvt.rn.satfinite.e4m3x2.f16x2"], "via_fp16_rtz"),
        (["cvt.rz.f16x2.f32", "cvt.rn.satfinite.e4m3x2.f16x2"], "via_fp16_rtz"),
        (["cvt.rn.f16.f32", "cvt.rn.satfinite.e4m3x2.f16x2"], "via_fp16_rne"),
        (["cvt.rn.bf16x2.f32", "cvt.rn.satfinite.e4m3x2.bf16x2"], "via_bf16"),
        (["cvt.rz.bf16.f32", "cvt.rn.satfinite.e4m3x2.bf16x2"], None),
        (["cvt.rz.f16.f32", "cvt.rn.bf16.f32", "cvt.rn.satfinite.e4m3x2.f16x2"], None),
        (["cvt.rn.e4m3x2.f32"], None),
        (["cvt.rz.satfinite.e4m3x2.f32"], None),
        (["cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e4m3x2.f16x2"], None),
        ([], None),
    ],
)
def test_instructions_name_a_rounding(instructions: list[str], rounding: Rounding | None) -> None:
    """What is not clear beyond doubt is None."""
    assert rounding_of(dict.fromkeys(instructions, 1)) == rounding


@pytest.mark.parametrize("source", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("arch", ["sm_89", "sm_90", "sm_120"])
def test_the_installed_triton_compiles_what_the_model_says(arch: str, source: Source) -> None:
    """Read from PTX, without a GPU."""
    assert compiled_rounding(arch, source) == cast_model(arch).rounding(source)


def test_the_models_of_all_archs_are_what_is_compiled() -> None:
    """Those without fp8 are refused by the compiler too."""
    assert [model_error(arch) for arch in ("sm_75", "sm_80", "sm_89", "sm_100")] == [None] * 4


def test_a_wrong_model_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what is compiled and what the model says."""
    monkeypatch.setattr(cast_lowering, "cast_model", lambda arch: CastModel(arch, "rtz", "rne"))
    assert model_error("sm_90") == f"triton {installed()} casts fp32 for sm_90 as rne; the model says rtz"


def test_an_unclear_cast_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instruction that kvcheck does not know proves no model."""
    monkeypatch.setattr(cast_lowering, "compiled_rounding", lambda *_: None)
    error = model_error("sm_90")
    assert error is not None
    assert "in a way that kvcheck does not know" in error


def test_a_model_of_an_arch_that_does_not_compile_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler's words stand in the line."""
    monkeypatch.setattr(cast_lowering, "cast_model", lambda arch: CastModel(arch, "rne", "rne"))
    error = model_error("sm_80")
    assert error is not None
    assert "type fp8e4nv not supported in this architecture" in error
    assert "\n" not in error


def test_amd_has_no_model_to_compare() -> None:
    """The reason is that none was made; PTX there is none."""
    assert model_error("gfx942") == "gfx942: no model of its compiler's fp8 casts was made"
    with pytest.raises(SelectionError, match=r"gfx942.*only NVIDIA"):
        compiled_rounding("gfx942", "fp32")


def test_a_model_that_triton_outgrew_is_found() -> None:
    """sm_89's two steps are found wrong from triton 3.9 on, and the one step before."""
    two_steps = release(installed()) < (3, 9)
    assert compiled_rounding("sm_89", "fp32") == ("via_fp16_rtz" if two_steps else "rne")
