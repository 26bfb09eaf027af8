"""Bad usage and input: exit 2, one line that says what is wrong and what was expected, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from run.command import environment

import kvcheck
from kvcheck.cli.main import run

#: Files that users may get wrong, by name.
FILES = {
    "malformed.toml": "[axes",
    "empty.toml": "",
    "axis.toml": "[axes]\ntokenss = [1]",
    "value.toml": "[axes]\ndtype = ['bf17']",
    "type.toml": "[axes]\ntokens = ['8']",
    "list.toml": "[axes]\ntokens = []",
    "syntax.py": "x = 1\nx = (",
    "raises.py": "\nraise ValueError('no\\nway')",
    "none.py": "x = 1",
    "missing.py": "import no_such_engine",
    "exits.py": "import os, sys\nprint('hello')\nsys.stderr.write('half a line')\nsys.stderr.flush()\nos._exit(7)",
    "contract.py": """
        from kvcheck import Computed, Contract, store_target
        @store_target("wrong", contract=Contract(scale=Computed("token_head"), apply="magic"))
        def wrong(k, v, slots, cache): pass
    """,
    "granularity.py": """
        from kvcheck import Computed, Contract, store_target
        @store_target("wrong", contract=Contract(scale=Computed("row")))
        def wrong(k, v, slots, cache): pass
    """,
    "no_contract.py": """
        from kvcheck import store_target
        @store_target("wrong", contract=3)
        def wrong(k, v, slots, cache): pass
    """,
    "parameters.py": """
        from kvcheck import Computed, Contract, store_target
        @store_target("wrong", contract=Contract(scale=Computed("token_head")))
        def wrong(k, v): pass
    """,
    "prepare.py": """
        from kvcheck import Computed, Contract, store_target
        def build(): raise OSError("nvcc: not found")
        @store_target("unbuilt", contract=Contract(scale=Computed("token_head")), prepare=build)
        def unbuilt(k, v, slots, cache): pass
    """,
    "one.py": """
        from kvcheck import Computed, Contract, store_target
        @store_target("one", contract=Contract(scale=Computed("token_head")))
        def first(k, v, slots, cache): pass
    """,
    "a-file": "",
}

#: A command line and what its one line must say.
WRONG = [
    ("malformed.toml", "malformed.toml: is not TOML"),
    ("empty.toml", "empty.toml: the matrix is empty"),
    ("axis.toml", "axis.toml: axes.tokenss: unknown axis 'tokenss'; did you mean 'tokens'?"),
    ("value.toml", "value.toml: axes.dtype[0]: 'bf17' is not accepted; expected 'bf16' or 'fp16' or 'fp32'"),
    ("type.toml", "type.toml: axes.tokens[0]: '8' is not accepted; expected an integer"),
    ("list.toml", "list.toml: axes.tokens: is an empty list"),
    ("absent.toml", "absent.toml: no such matrix file"),
    ("sead", "did you mean 'seed'?"),
    (".", ".: is a directory; expected a TOML file"),
    ("--target absent", "target 'absent' is unknown; expected FILE.py[::NAME] or one of: store, "),
    ("--target absent.py", "target 'absent.py': there is no file absent.py"),
    ("--target one.py::two", "one.py has no target 'two'; it has one"),
    ("--target syntax.py", "importing syntax.py raised SyntaxError at line 2"),
    ("--target raises.py", "importing raises.py raised ValueError at line 2: no"),
    ("--target none.py", "none.py declares none; expected functions under @kvcheck.store_target"),
    ("--target missing.py", "cannot be imported: missing.py: ModuleNotFoundError: No module named 'no_such_engine'"),
    ("--target exits.py", "the process that loads it ended with status 7: half a line"),
    ("--target contract.py", "contract.py at line 3: Contract.apply is 'magic'; expected divide, divide_approx"),
    (
        "--target granularity.py",
        "granularity.py at line 3: Computed.granularity is 'row'; expected token_head, token, head, tensor or block:N",
    ),
    ("--target no_contract.py", "target 'wrong': contract is int; expected kvcheck.Contract"),
    ("--target parameters.py", "target 'wrong': the function does not take (k, v, slots, cache)"),
    ("--target prepare.py", "target 'prepare.py': prepare raised OSError: nvcc: not found"),
    ("--device tpu", "--device: 'tpu' is not accepted; expected auto, cpu, cuda, or GPUs as in cuda:0,cuda:1"),
    ("-j -1", "-j: -1 is not accepted; expected 1 or more, or 0 for as many as cores"),
    ("--timeout 0", "--timeout: 0.0 is not accepted; expected seconds, more than 0"),
    ("--timeout nan", "--timeout: nan is not accepted"),
    ("--timeout inf", "--timeout: inf is not accepted"),
    ("--load-timeout 0", "--load-timeout: 0.0 is not accepted; expected seconds, more than 0"),
    ("--select colour=red", "--select colour=red: unknown axis 'colour'"),
    ("--select dtype=bf17", "--select dtype=bf17: 'bf17' is not accepted; expected"),
    ("--select tokens=9", "--select tokens=9: selects none of 48 cases"),
    ("--select zz", "--select zz: 'zz' is not a term"),
    ("--shard 3/2", "--shard 3/2: expected K/N"),
    ("--shard 0/2", "--shard 0/2: expected K/N"),
    ("--shard half", "--shard half: expected K/N"),
    ("--out a-file/reports", "--out a-file/reports: cannot be written: Not a directory"),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with those files, to run in."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("words", "says"), WRONG, ids=[words for words, _ in WRONG])
def test_bad_input_is_one_clear_line_and_exit_2(
    here: Path, capfd: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    """The line begins with `kvcheck:` and names the culprit; no traceback, no report, no other output."""
    arguments = words.split()
    matrix = [] if arguments[0].endswith(("toml", "sead", ".")) else ["seed"]
    device = [] if "--device" in arguments else ["--device", "cpu"]
    code = run(["matrix", *matrix, *arguments, *device])
    out, err = capfd.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("kvcheck: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert says in err
    assert not list(here.glob("reports/*/*"))


def test_sanitize_takes_what_matrix_takes(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The options that both have are checked alike."""
    for words, says in [
        ("-j -1", "-j: -1 is not"),
        ("--timeout 0", "--timeout: 0.0"),
        ("--device tpu", "'tpu' is not"),
    ]:
        assert run(["sanitize", "seed", *words.split()]) == 2
        out, err = capfd.readouterr()
        assert (out, err.count("\n"), says in err) == ("", 1, True)
    assert not list(here.glob("reports/*/*"))


@pytest.mark.parametrize(("words", "says"), [("matrix -j many", "-j"), ("matrix --no", "--no"), ("runn", "runn")])
def test_words_that_are_no_options_exit_2(capfd: pytest.CaptureFixture[str], words: str, says: str) -> None:
    """The parser's own errors have the same code, and end in a line that says which word it was."""
    assert run(words.split()) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert says in err.splitlines()[-1]
    assert "Traceback" not in err


def test_cuda_without_a_gpu_is_one_line(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A run that asks for a GPU never turns into one on the CPU. CUDA_VISIBLE_DEVICES hides any that is there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        code = run(["matrix", "seed", "--device", "cuda"])
    out, err = capfd.readouterr()
    assert (code, out) == (2, "")
    assert err == "kvcheck: device 'cuda': torch sees no GPU here; expected an NVIDIA GPU, or --device cpu\n"
    assert not list(here.glob("reports/*/*"))


def test_another_system_than_linux_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Elsewhere nothing is tried."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert run(["matrix"]) == 2
    assert capfd.readouterr() == ("", "kvcheck: runs on Linux only; this is darwin\n")


def test_version_and_help_exit_0(capfd: pytest.CaptureFixture[str]) -> None:
    """Both print to standard output alone."""
    assert run(["--version"]) == 0
    assert capfd.readouterr().out.startswith("kvcheck ")
    assert run(["matrix", "--help"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert all(option in out for option in ("--target", "--device", "--select", "--shard", "--strict", "--timeout"))


def test_help_imports_nothing_slow() -> None:
    """Neither torch nor numpy nor rich is imported to print a help text."""
    script = dedent("""
        import sys
        from kvcheck.cli.main import run
        assert run(["matrix", "--help"]) == 0
        slow = {"torch", "triton", "numpy", "pandas", "rich"} & set(sys.modules)
        assert not slow, slow
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_targets_lists_what_is_built_in(capfd: pytest.CaptureFixture[str]) -> None:
    """The default, then the specimens, then engines: the name, and where it was found."""
    assert run(["targets"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["store", "kvcheck", kvcheck.__version__]
    names = [line.split()[0] for line in lines]
    assert "specimen:shared-pitch" in names
    assert "conch" in names


def test_targets_looks_for_engines_where_it_is_told(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`--engine-path` comes before what is installed; a folder that is none is a mistake."""
    script = "import sys; from kvcheck.cli.main import run; sys.exit(run(sys.argv[1:]))"
    file = tmp_path / "python" / "freetoken" / "kernel" / "triton" / "kv_quant.py"
    file.parent.mkdir(parents=True)
    file.touch()
    done = subprocess.run(
        [sys.executable, "-c", script, "targets", "--engine-path", str(tmp_path)],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"freetoken (a checkout), {file}" in done.stdout
    assert run(["targets", "--engine-path", str(file)]) == 2
    assert "is no folder" in capfd.readouterr().err


def test_targets_writes_a_first_adapter_once(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says how to try it; the second time the file is somebody's."""
    monkeypatch.chdir(tmp_path)
    assert run(["targets", "--new", "ours"]) == 0
    assert capfd.readouterr().out == "ours.py written; try: kvcheck matrix seed --target ours.py\n"
    assert (tmp_path / "ours.py").is_file()
    assert run(["targets", "--new", "ours"]) == 2
    assert "ours.py was not written: File exists" in capfd.readouterr().err


def test_cases_lists_what_would_run(capfd: pytest.CaptureFixture[str]) -> None:
    """An id and the axes that are not at their defaults, a case a line; selections and shards as in a run."""
    assert run(["cases", "seed"]) == 0
    every = capfd.readouterr().out.splitlines()
    assert len(every) == 48
    assert run(["cases", "seed", "--select", "k_view=qkv,v_view=dense,dtype=bf16,layout=arena"]) == 0
    chosen = capfd.readouterr().out.splitlines()
    assert len(chosen) == 2
    assert set(chosen) <= set(every)
    assert all("k_view=qkv" in line and "v_view" not in line for line in chosen)
    shards = []
    for part in ("1/3", "2/3", "3/3"):
        assert run(["cases", "seed", "--shard", part]) == 0
        shards += capfd.readouterr().out.splitlines()
    assert sorted(shards) == sorted(every)
