"""Targets' own launches, compiled for archs that this machine need not have."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.errors import KvcheckError, SelectionError
from kvcheck.lowering import compile_facts as module
from kvcheck.lowering.archs import installed, release
from kvcheck.lowering.compile_facts import compile_facts
from kvcheck.lowering.facts import CompileFact
from kvcheck.lowering.messages import described, one_line
from kvcheck.run.compile_worker import merged
from kvcheck.schema import Case

TARGETS = Path(__file__).with_name("targets.py")
NATIVE_CAST = Path(__file__).parents[2] / "kvcheck" / "kernels" / "native_cast.py"
CASES = (Case(), Case(dtype="fp32"))
ONE_STEP = release(installed()) >= (3, 9)


def facts(spec: str, *archs: str) -> list[CompileFact]:
    """The facts of a target of this folder's file, for two cases."""
    return list(compile_facts(f"{TARGETS}::{spec}", CASES, archs))


def test_the_store_compiles_for_archs_without_fp8() -> None:
    """It encodes in integers and divides as IEEE does, for Turing and Ada alike."""
    found = compile_facts("store", CASES[:1], ["sm_75", "sm_89"])
    assert [(fact.arch, fact.kernel, fact.outcome, fact.target) for fact in found] == [
        ("sm_75", "store_kernel", "compiled", "sm_75"),
        ("sm_89", "store_kernel", "compiled", "sm_89"),
    ]
    for fact in found:
        assert fact.casts == {}
        assert list(fact.divisions) == ["div.rn.f32"]
        assert fact.fault is None


def test_the_native_cast_shows_its_instructions_by_arch() -> None:
    """Refused for sm_86; two steps for sm_89 before triton 3.9; one for sm_90."""
    ampere, ada, hopper = compile_facts(str(NATIVE_CAST), CASES, ["sm_86", "sm_89", "sm_90"])
    assert (ampere.outcome, ampere.fault, ampere.launches) == ("failed", "compile-failure", 2)
    assert "type fp8e4nv not supported in this architecture" in ampere.error
    assert "\n" not in ampere.error
    assert "store_side" in ampere.log
    assert list(hopper.casts) == ["cvt.rn.satfinite.e4m3x2.f32"]
    two_steps = ["cvt.rn.satfinite.e4m3x2.f16x2", "cvt.rz.f16.f32"]
    assert list(ada.casts) == (list(hopper.casts) if ONE_STEP else two_steps)
    assert hopper.launches == ada.launches == 2
    assert isinstance(hopper.fp_fusion, bool)


def test_kernels_behind_one_that_fails_are_seen() -> None:
    """The launch that does not compile is passed over."""
    first, second = facts("two", "sm_80")
    assert (first.kernel, first.outcome) == ("native", "failed")
    assert (second.kernel, second.outcome) == ("halve", "compiled")
    # By a constant: triton 3.9 has another instruction for it.
    assert list(second.divisions) == ["div.approx.f32" if ONE_STEP else "div.full.f32"]


def test_amd_is_compiled_for() -> None:
    """The instructions are AMD's."""
    first, second = facts("two", "gfx942")
    assert {first.outcome, second.outcome} == {"compiled"}
    assert first.target == second.target == "gfx942"
    assert any(name.startswith("v_rcp_f32") for name in second.divisions)


def test_autotuned_kernels_are_compiled_without_timing() -> None:
    """The first of equals is taken; nothing is launched."""
    (found,) = facts("tuned", "sm_90")
    assert (found.kernel, found.outcome, found.launches) == ("tuned", "compiled", 2)


def test_targets_without_launches_say_so() -> None:
    """Neither a pass nor a failure."""
    (found,) = facts("torch-only", "sm_90")
    assert (found.outcome, found.fault, found.error) == ("none", None, "the target launched no Triton kernel")
    (found,) = facts("wants-cuda", "sm_90")
    assert (found.outcome, found.error) == ("none", "k must lie on a GPU")


def test_cases_outside_what_a_target_takes_are_left_out() -> None:
    """Of two dtypes it takes one."""
    (found,) = facts("bf16-only", "sm_90")
    assert (found.outcome, found.launches) == ("compiled", 1)
    (found,) = compile_facts(f"{TARGETS}::bf16-only", CASES[1:], ["sm_90"])
    assert (found.outcome, found.error) == ("none", "takes dtype bf16; the case has fp32")


def test_a_launch_that_never_came_to_the_compiler_is_not_its_failure() -> None:
    """Nothing is known of the kernel, and why."""
    (found,) = facts("miscalled", "sm_90")
    assert (found.kernel, found.outcome, found.fault) == ("halve", "none", None)
    assert found.error.startswith("TypeError")


def test_a_compiler_that_dies_fails_its_arch_alone() -> None:
    """The child's last words are kept, and the next arch is still asked."""
    found = facts("dies", "sm_89", "sm_90")
    assert [fact.arch for fact in found] == ["sm_89", "sm_90"]
    for fact in found:
        assert fact.fault == "compile-failure"
        assert fact.error == "the compiler ended its process with status -6: LLVM ERROR: out of ideas"


def test_unknown_archs_and_targets_are_one_line() -> None:
    """Before anything is compiled."""
    with pytest.raises(SelectionError, match="sm_87"):
        compile_facts("store", CASES, ["sm_87"])
    with pytest.raises(KvcheckError, match="no-such-target"):
        compile_facts("no-such-target", CASES, ["sm_90"])


def test_a_worker_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends without a word, or takes too long."""
    with pytest.raises(KvcheckError, match=r"compiling took more than 0\.01 seconds"):
        compile_facts("store", CASES, ["sm_90"], timeout=0.01)
    monkeypatch.setattr(module, "WORKER", "this")  # which prints something else
    with pytest.raises(KvcheckError, match="gave no answer: JSON is malformed"):
        compile_facts("store", CASES, ["sm_90"])
    monkeypatch.setattr(module, "WORKER", "kvcheck.no_such_worker")
    with pytest.raises(KvcheckError, match=r"ended with status 1.*no_such_worker"):
        compile_facts("store", CASES, ["sm_90"])


def test_equal_facts_are_counted() -> None:
    """In the order of the first of each."""
    one, other = CompileFact("sm_90", "a", "compiled"), CompileFact("sm_90", "b", "compiled", casts={"cvt": 2})
    assert merged([one, other, one]) == (msgspec.structs.replace(one, launches=2), other)


UNSUPPORTED = "type fp8e4nv not supported in this architecture"
PTXAS = "ptxas a.ptx, line 45; error   : Feature 'cvt' requires .target sm_89"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"at 4:25:\n    x.to(T)\n         ^\n{UNSUPPORTED}", UNSUPPORTED),
        (f"{PTXAS}\nptxas fatal: aborted", PTXAS),
        ("first\nlast\n   ^^^\n", "last"),
        ("", ""),
        ("x" * 1000, "x" * 300),
    ],
)
def test_one_line_is_the_one_that_tells(text: str, line: str) -> None:
    """The first that names an error, else the last with a word in it."""
    assert one_line(text) == line


def test_an_exception_is_described_by_what_led_to_it() -> None:
    """The first of the chain says most."""
    error = RuntimeError("PassManager::run failed")
    error.__cause__ = ValueError("the reason")
    assert described(error) == "RuntimeError: the reason"
    assert described(KeyError()) == "KeyError"
