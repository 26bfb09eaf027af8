"""`kvcheck compile` as a user runs it."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.cli.main import run
from kvcheck.lowering.compile_says import exit_code, lines
from kvcheck.schema import CompileFact

GOOD = CompileFact(
    "sm_90", "store", "compiled", casts={"cvt.rn.satfinite.e4m3x2.f32": 2}, divisions={"div.rn.f32": 1}, fp_fusion=True
)
BAD = CompileFact("sm_80", "store_kernel", "failed", error="type fp8e4nv not supported")
NONE = CompileFact("sm_120", "", "none", error="the target launched no Triton kernel")


def test_a_target_is_compiled_for_archs_that_are_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    """Right for sm_90; the compiler's message for sm_80, and exit 1."""
    assert run(["compile", "--target", "native-cast", "--arch", "sm_80", "--arch", "sm_90"]) == 1
    name, ampere, hopper = capsys.readouterr().out.splitlines()
    assert name == "native-cast"
    assert ampere.split()[:2] == ["sm_80", "store_kernel"]
    assert "compile-failure: CompilationError: type fp8e4nv not supported in this architecture" in ampere
    assert "cvt.rn.satfinite.e4m3x2.f32" in hopper
    assert "div.rn.f32" in hopper


def test_json_is_the_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """By target."""
    assert run(["compile", "--arch", "sm_75", "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out, type=dict[str, list[CompileFact]])
    assert list(found) == ["store"]
    (fact,) = found["store"]
    assert (fact.arch, fact.target, fact.outcome, fact.launches) == ("sm_75", "sm_75", "compiled", 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--arch", "sm_87"), "arch 'sm_87' is not known"),
        (("--target", "nothing"), "target 'nothing' is unknown"),
        (("no-such.toml",), "no-such.toml"),
    ],
)
def test_bad_usage_is_one_line(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2."""
    assert run(["compile", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_exit_codes_by_what_was_found() -> None:
    """A failure first, then what is not known; nothing known at all is no pass."""
    assert exit_code([GOOD]) == 0
    assert exit_code([GOOD, NONE, BAD]) == 1
    assert exit_code([GOOD, NONE]) == 3
    assert exit_code([NONE]) == 4
    assert exit_code([]) == 4


def test_lines_are_in_columns() -> None:
    """Arch, kernel, what became of it."""
    assert lines([GOOD, BAD, NONE]) == [
        "sm_90   store         casts: 2 cvt.rn.satfinite.e4m3x2.f32; divides: 1 div.rn.f32; fuses multiply and add",
        "sm_80   store_kernel  compile-failure: type fp8e4nv not supported",
        "sm_120                nothing is known: the target launched no Triton kernel",
    ]
