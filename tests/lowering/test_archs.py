"""Architectures by name, and the models of their casts."""

from __future__ import annotations

from importlib import metadata

import pytest

from kvcheck.errors import SelectionError
from kvcheck.formats.spec import Rounding
from kvcheck.lowering import archs
from kvcheck.lowering.archs import CastModel, capability, cast_model, check_arch, installed, release


def test_a_name_is_its_compute_capability() -> None:
    """`sm_89` is 89, `sm_120` is 120."""
    assert [capability(name) for name in ("sm_75", "sm_89", "sm_120")] == [75, 89, 120]


@pytest.mark.parametrize("name", ["89", "sm89", "sm_", "sm_9", "sm_089", "sm_90a", "gfx942", ""])
def test_other_spellings_are_refused_in_one_line(name: str) -> None:
    """The line names the spelling and what is known."""
    with pytest.raises(SelectionError) as raised:
        capability(name)
    assert repr(name) in str(raised.value)
    assert "sm_89" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_unknown_arch_has_no_model() -> None:
    """A well-formed name is not enough."""
    with pytest.raises(SelectionError, match=r"arch 'sm_87' is not known; expected one of sm_75, .*, gfx950"):
        cast_model("sm_87")


@pytest.mark.parametrize("name", archs.NAMES)
def test_every_known_arch_has_a_model_or_a_reason(name: str) -> None:
    """Never both, never neither."""
    check_arch(name)
    model = cast_model(name)
    assert (model.fp32 is None) == (model.half is None) == (model.reason is not None)


@pytest.mark.parametrize(
    ("name", "triton", "rounding"),
    [
        ("sm_89", "3.2.0", "via_fp16_rtz"),
        ("sm_89", "3.8.0", "via_fp16_rtz"),
        ("sm_89", "3.9.0", "rne"),
        ("sm_89", "3.10.1", "rne"),
        ("sm_90", "3.6.0", "rne"),
        ("sm_100", "3.6.0", "rne"),
        ("sm_120", "3.6.0", "rne"),
    ],
)
def test_fp32_takes_two_steps_for_sm_89_before_triton_3_9(name: str, triton: str, rounding: Rounding) -> None:
    """Other archs, and bf16 and fp16 everywhere, take one."""
    model = cast_model(name, triton)
    assert model == CastModel(name, rounding, "rne")
    assert model.rounding("fp32") == rounding
    assert model.rounding("bf16") == model.rounding("fp16") == "rne"


@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_86"])
def test_archs_before_sm_89_do_not_compile_fp8(name: str) -> None:
    """The reason has the compiler's words."""
    model = cast_model(name)
    assert not model.compiles
    assert model.reason == f"{name}: type fp8e4nv not supported in this architecture"


def test_amd_compiles_without_a_model() -> None:
    """What AMD's compiler makes of a cast was never compared."""
    model = cast_model("gfx942")
    assert model.compiles
    assert model.fp32 is None


def test_the_installed_triton_decides_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same arch, two versions."""
    monkeypatch.setattr(metadata, "version", lambda _: "3.9.0")
    assert cast_model("sm_89").fp32 == "rne"
    monkeypatch.setattr(metadata, "version", lambda _: "3.7.1+git1234")
    assert cast_model("sm_89").fp32 == "via_fp16_rtz"


def test_without_triton_there_is_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty version, which counts as older than any."""

    def absent(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", absent)
    assert installed() == ""
    assert release(installed()) == (0, 0)


def test_release_reads_major_and_minor() -> None:
    """Suffixes do not matter, and 3.10 is newer than 3.9."""
    assert release("3.7.1+cu130") == (3, 7)
    assert release("3.10") > release("3.9.9")
    assert release("main") == (0, 0)
