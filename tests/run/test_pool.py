"""The run's end of a nursery, and what both say to each other."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import msgspec
import pytest

from kvcheck.contract import Accepts, Computed, Contract, Form
from kvcheck.run.kernel_cache import kernel_cache
from kvcheck.run.marked import marked
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery, _environment, _last_words
from kvcheck.run.protocol import MARK, Answers, Ended, Hello, Job, TargetInfo, spoken
from kvcheck.run.session import unsupported
from kvcheck.schema import Case

from .command import KERNELS
from .processes import is_running, wait_for

CONTRACT = Contract(scale=Computed("token_head"))


def _info(accepts: Accepts = Accepts(), form: Form = Form()) -> TargetInfo:  # noqa: B008 - frozen
    return TargetInfo("made-up", "store", CONTRACT, accepts, form, (), None, "00", None, "host")


@pytest.mark.parametrize(
    "message",
    [
        Job(3, "né\n", Case(k_view="1,2,3"), "/tmp/a b", 0.5, reference=True),  # noqa: S108 - only a name
        Ended(3, None, 11, 0.25, timed_out=False),
        Hello((_info(),), cuda=True, arch="sm_90", environment={"gpu": None, "torch": "2"}, threads=1),
    ],
    ids=["job", "ended", "hello"],
)
def test_messages_are_one_line_and_come_back_equal(message: Job | Ended | Hello) -> None:
    """A line feed inside a text does not end the message."""
    line = msgspec.json.encode(message)
    assert b"\n" not in line
    assert msgspec.json.decode(line, type=type(message)) == message


def test_what_others_write_into_the_pipe_is_no_answer() -> None:
    """A nursery's words are known by its mark, also behind what ends in no line feed."""
    reader, writer = os.pipe()
    message = Ended(3, None, 11, 0.25, timed_out=False)
    os.write(writer, b'{"number":1}\nnoise')
    Answers(writer, "a-mark").say(message)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = [spoken(line, "a-mark") for line in pipe]
    assert said[0] is None
    assert msgspec.json.decode(said[1] or b"", type=Ended) == message
    assert len(said) == 2


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (b"", "the process that loads it ended with status -11"),
        (b"first\n  last \n\n", "the process that loads it ended with status -11: last"),
        (b"\xff\n", "the process that loads it ended with status -11: �"),
    ],
)
def test_a_nursery_that_dies_early_is_described_in_one_line(printed: bytes, words: str) -> None:
    """Its status, and the last line that is not blank."""
    assert _last_words(io.BytesIO(printed), -11) == words


def test_a_nursery_has_one_thread_and_never_the_callers_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options decide on interpretation and arch, not what happens to be set."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "sm89")
    env = _environment("cuda")
    assert not {"TRITON_INTERPRET", "TRITON_OVERRIDE_ARCH"} & set(env)
    assert env["OMP_NUM_THREADS"] == env["OPENBLAS_NUM_THREADS"] == "1"
    assert env["PYTORCH_NVML_BASED_CUDA_CHECK"] == "1"


def test_kernels_are_kept_apart_by_all_that_they_are_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the arch that it comes to, not by the words it was asked for in; and where the user says, if the user does."""
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    ways = [
        ("sm_90", "sm_90"),
        ("sm_89", "sm_90"),
        ("sm_89", "sm_120"),
        ("sm_89", "sm_89"),
        ("sm_90", ""),
        ("sm_89", ""),
    ]
    folders = [kernel_cache(arch, own)["TRITON_CACHE_DIR"] for arch, own in ways]
    assert len(set(folders)) == len(ways)
    versions = f"torch-{metadata.version('torch')}-triton-{metadata.version('triton')}"
    assert folders[1] == f"/cache/kvcheck/{versions}-sm_89-lowered-on-sm_90"
    assert folders[4] == f"/cache/kvcheck/{versions}-sm_90-interpreted"
    monkeypatch.setenv("TRITON_CACHE_DIR", "/mine")
    assert kernel_cache("sm_90", "") == {}


def test_a_fork_and_a_fresh_interpreter_share_their_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for by name or not, an arch is the same; what was asked for has no folder of its own."""
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "names.py"
    text = (KERNELS / "slow.py").read_text(encoding="utf-8")
    text = text.replace('store_target("slow"', 'store_target(Path(os.environ["TRITON_CACHE_DIR"]).name')
    file.write_text(text.replace("import time", "import os\nimport time\nfrom pathlib import Path"), encoding="utf-8")
    (tmp_path / "right.py").write_bytes((KERNELS / "right.py").read_bytes())
    seen = set()
    for arch in ("", "sm_90"):
        with Nursery(str(file), Options(device="cpu", jobs=1), arch) as nursery:
            seen |= {nursery.hello.targets[0].name, Path(nursery.environment()["TRITON_CACHE_DIR"]).name}
    (folder,) = seen
    assert folder.endswith("-sm_90-interpreted")


def test_a_marked_process_is_found_after_it_left_its_parent() -> None:
    """An orphan in a session of its own is still known by its environment; others are not."""
    script = (
        "import os, time\n"
        "pid = os.fork()\n"
        "if pid: print(pid, flush=True); os._exit(0)\n"
        "os.setsid(); os.close(1); time.sleep(60)\n"
    )
    env = {**os.environ, MARK: "a-test's own"}
    done = subprocess.run([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, check=True, text=True)
    pid = int(done.stdout)
    try:
        assert marked("a-test's own") == [pid]
        assert marked("a-test's") == []
    finally:
        os.kill(pid, 9)
    wait_for(lambda: not is_running(pid))
    assert marked("a-test's own") == []


def test_a_case_outside_the_limits_is_unsupported_without_a_process() -> None:
    """So is one that cannot be placed; each says why."""
    assert unsupported(Case(), _info(), cuda=False) is None
    reason = unsupported(Case(dtype="bf16"), _info(Accepts(dtypes=("fp32",))), cuda=False)
    assert reason == "takes dtype fp32; the case has bf16"
    odd = unsupported(Case(dtype="fp32", align=2), _info(), cuda=False)
    assert odd == "align 2 is less than an element of fp32"
