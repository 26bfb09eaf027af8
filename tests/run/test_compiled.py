"""What matrix reports say of the compiler: facts of the arch, and a failure that the interpreter would have hidden."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from kvcheck.run import compiled
from kvcheck.run.compiled import MOST, Compiling, few
from kvcheck.run.marked import marked
from kvcheck.run.options import Options
from kvcheck.run.protocol import TargetInfo
from kvcheck.schema import Case

from .command import KERNELS, matrix, write_matrix
from .processes import is_running, wait_for


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matrix of one case."""
    return write_matrix(tmp_path_factory.mktemp("matrix") / "one.toml", tokens=[8])


def test_a_kernel_that_no_compiler_takes_fails_the_run(one: Path, tmp_path: Path) -> None:
    """The interpreter runs it and every byte is right; the report says that it does not compile, and the exit is 1."""
    ran = matrix(tmp_path, one, "--target", KERNELS / "uncompiled.py")
    assert ran.code == 1
    assert "1 case ran, none failed, but a kernel does not compile" in ran.out
    assert ran.report.summary == {"pass": 1}
    (fact,) = ran.report.compiled
    assert (fact.arch, fact.kernel, fact.fault) == ("sm_90", "store_row", "compile-failure")
    assert "Mismatched type for one" in fact.error
    (text,) = tmp_path.glob("*/*/report.md")
    assert "does not compile for sm_90" in text.read_text()


def test_an_arch_asked_for_has_its_facts(one: Path, tmp_path: Path) -> None:
    """kvcheck's own kernel too: its instructions stand in the report."""
    ran = matrix(tmp_path, one, "--arch", "sm_80")
    assert ran.code == 0, ran.out
    (fact,) = ran.report.compiled
    assert (fact.arch, fact.target, fact.outcome) == ("sm_80", "sm_80", "compiled")
    assert list(fact.divisions) == ["div.rn.f32"]


def info(**changes: object) -> TargetInfo:
    """A Triton target that the interpreter runs."""
    from kvcheck.kernels.store import store  # noqa: PLC0415 - imports triton

    base = TargetInfo(
        "t", "store", store.contract, store.accepts, store.form, (), None, "", None, "interpreted", triton=True
    )
    return msgspec.structs.replace(base, **changes)


def test_nothing_is_compiled_where_nothing_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU launches compile; kvcheck's own kernels are known; torch's have no compiler; engines may be missing."""
    monkeypatch.setattr(compiled, "compile_facts", lambda *_, **__: pytest.fail("compiled"))
    cases = (Case(),)
    for spec, given in (
        ("mine.py", info(execution="native")),
        ("store", info()),
        ("specimen:shared-pitch", info()),
        ("mine.py", info(triton=False)),
        ("mine.py", info(missing="no engine")),
    ):
        assert Compiling(spec, given, cases, Options(), "sm_90").facts() == ()


def test_a_worker_that_fails_is_said() -> None:
    """Nothing is known then, and why."""
    (fact,) = Compiling("no-such.py", info(), (Case(),), Options(), "sm_90").facts()
    assert fact.outcome == "none"
    assert "no-such.py" in fact.error


def test_left_before_it_is_done_it_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker whose target hangs, as after Ctrl-C: neither it nor the thread that waits for it goes on."""
    (tmp_path / "loaded").touch()
    monkeypatch.setenv("KVCHECK_TEST_STUCK", f"wrong:{tmp_path / 'loaded'}")
    with Compiling(str(KERNELS / "stuck.py"), info(), (Case(),), Options(), "sm_90") as compiling:
        workers = wait_for(lambda: marked(compiling._mark))
        began = time.monotonic()
    assert time.monotonic() - began < 10
    assert not any(map(is_running, workers))
    (fact,) = compiling.facts()
    assert fact.outcome == "none"


def test_few_cases_stand_for_all() -> None:
    """The first of each dtype and shape."""
    cases = [Case(tokens=tokens, head_dim=dim) for dim in (64, 128) for tokens in (1, 8)]
    assert few(cases) == (cases[0], cases[2])
    assert len(few([Case(head_dim=dim) for dim in range(8, 8 * (MOST + 4), 8)])) == MOST
