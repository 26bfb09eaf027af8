"""From how a child ended to a result, without any child."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from kvcheck.contract import Accepts, Computed, Contract, Form
from kvcheck.memory.overrun import FAULT, TABLE, FencedTensors, Table
from kvcheck.memory.place import place
from kvcheck.run.keep import LARGEST, keep_emission
from kvcheck.run.protocol import EMISSION, FAILURE, SCENE, STAGE, STDERR, UNSET, UNWRITTEN, Ended, Failure, TargetInfo
from kvcheck.run.result import FORMS, SLUGS, expected, not_run, result_of
from kvcheck.schema import Case, CaseResult, Diagnosis, Emission, Outcome

CASE = Case(tokens=2)
CONTRACT = Contract(scale=Computed("token_head"))
INFO = TargetInfo(
    "made-up", "store", CONTRACT, Accepts(), Form(), (), "sibling-pitch", "00", None, "host"
)  # fmt: skip
WELL = Ended(0, 0, None, 0.25, timed_out=False)


def _result(folder: Path, ended: Ended = WELL) -> CaseResult:
    return result_of(CASE, ended, folder, INFO, expect_declared=False)


def _say(folder: Path, failure: Failure) -> None:
    (folder / FAILURE).write_bytes(msgspec.msgpack.encode(failure))


def test_a_child_that_says_nothing_is_a_crash(tmp_path: Path) -> None:
    """Exit status 0 without an emission is what `os._exit(0)` in a kernel leaves."""
    result = _result(tmp_path)
    assert (result.outcome, result.codes.compared) == ("crash", 0)
    assert result.reason == "exited with status 0 before the case was done, in the child's own start"
    assert (result.process.exit, result.process.signal, result.seconds) == (0, None, 0.25)


def test_an_emission_and_another_exit_status_is_a_crash(tmp_path: Path) -> None:
    """What was written before the process failed is not judged, however right it is."""
    (tmp_path / EMISSION).write_bytes(b"")
    (tmp_path / STAGE).write_text("launch 3", encoding="utf-8")
    result = _result(tmp_path, Ended(0, 134, None, 1.0, timed_out=False))
    assert (result.outcome, result.reason) == ("crash", "exited with status 134 in launch 3")


def test_what_kvcheck_could_not_write_is_no_fault_of_the_kernels(tmp_path: Path) -> None:
    """A full disk leaves a mark, not a crash, whatever the exit status."""
    (tmp_path / UNWRITTEN).touch()
    result = _result(tmp_path, Ended(0, 70, None, 1.0, timed_out=False))
    assert result.outcome == "inconclusive"
    assert "could not write" in result.reason


def test_a_signal_is_named(tmp_path: Path) -> None:
    """The last lines of standard error stay with it, whatever bytes they are."""
    (tmp_path / STDERR).write_bytes(b"x\n" * 100 + b"Fatal \xff error\n")
    result = _result(tmp_path, Ended(0, None, 11, 1.0, timed_out=False))
    assert (result.outcome, result.process.signal) == ("crash", "SIGSEGV")
    lines = (result.process.error or "").splitlines()
    assert (len(lines), lines[-1]) == (60, "Fatal � error")


def test_a_signal_without_a_name_is_a_number(tmp_path: Path) -> None:
    """Real-time signals have no name of their own."""
    result = _result(tmp_path, Ended(0, None, 45, 1.0, timed_out=False))
    assert (result.outcome, result.reason) == ("crash", "killed by 45 in the child's own start")


def test_a_timeout_is_one_whatever_the_child_wrote(tmp_path: Path) -> None:
    """A process that was killed at its limit may have failed or finished just before."""
    _say(tmp_path, Failure("crash", "traceback", "RuntimeError"))
    (tmp_path / STAGE).write_text("launch 2", encoding="utf-8")
    result = _result(tmp_path, Ended(0, None, 9, 60.3, timed_out=True))
    assert (result.outcome, result.reason) == ("timeout", "killed after 60 s, at its time limit, in launch 2")


@pytest.mark.parametrize("stage", ["placing the case", "preparing launch 2", "writing the emission"])
def test_the_time_that_kvcheck_takes_is_not_the_kernels(tmp_path: Path, stage: str) -> None:
    """A large case may take its whole limit to draw: that says nothing of the kernel."""
    (tmp_path / STAGE).write_text(stage, encoding="utf-8")
    result = _result(tmp_path, Ended(0, None, 9, 60.3, timed_out=True))
    assert result.outcome == "inconclusive"
    assert result.reason.startswith(f"its time limit of 60 s was over in {stage}, which is kvcheck's own work")
    stopped = _result(tmp_path, Ended(0, None, 9, 60.3, timed_out=True, outside=True))
    assert stopped.outcome == "timeout"


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (
            Ended(0, None, 9, 1.0, timed_out=False, limit="at its limit"),
            "killed at its limit, in placing the case, before",
        ),
        (Ended(0, None, 11, 1.0, timed_out=False), "killed by SIGSEGV in placing the case, before the kernel had run"),
        (
            Ended(0, 70, None, 1.0, timed_out=False),
            "exited with status 70 in placing the case, before the kernel had run",
        ),
    ],
)
def test_what_fails_before_the_kernel_has_run_is_not_its_doing(tmp_path: Path, ended: Ended, reason: str) -> None:
    """Later it may be, whoever's code it is in: a kernel can break its process."""
    (tmp_path / STAGE).write_text("placing the case", encoding="utf-8")
    result = _result(tmp_path, ended)
    assert result.outcome == "inconclusive"
    assert result.reason.startswith(reason)
    (tmp_path / STAGE).write_text("preparing launch 2", encoding="utf-8")
    assert _result(tmp_path, ended).outcome == "crash"


def test_an_exception_before_the_kernel_has_run_is_not_its_own(tmp_path: Path) -> None:
    """A GPU that has no room for the case's tensors, say. The traceback stays with it."""
    (tmp_path / STAGE).write_text("placing the case", encoding="utf-8")
    _say(tmp_path, Failure("crash", "Traceback …", "OutOfMemoryError: no"))
    result = _result(tmp_path)
    assert (result.outcome, result.reason) == (
        "inconclusive",
        "kvcheck could not place this case: OutOfMemoryError: no",
    )
    assert result.process.error == "Traceback …"


@pytest.mark.parametrize("kind", ["crash", "refused"])
def test_what_a_child_says_of_itself_is_taken(tmp_path: Path, kind: Outcome) -> None:
    """The summary is the reason, the whole text stays beside it."""
    assert kind in ("crash", "refused")
    _say(tmp_path, Failure(kind, "line\nAssertionError: no", "AssertionError: no"))
    result = _result(tmp_path)
    assert (result.outcome, result.reason) == (kind, "AssertionError: no")
    assert result.process.error == "line\nAssertionError: no"


def test_a_refusal_whose_process_then_fails_is_a_crash(tmp_path: Path) -> None:
    """Who refuses leaves everything as it was, its process included."""
    _say(tmp_path, Failure("refused", "Refused: no", "Refused: no"))
    (tmp_path / STAGE).write_text("launch 1", encoding="utf-8")
    result = _result(tmp_path, Ended(0, 3, None, 1.0, timed_out=False))
    assert (result.outcome, result.reason) == ("crash", "exited with status 3 in launch 1")


def test_an_emission_that_cannot_be_read_is_inconclusive(tmp_path: Path) -> None:
    """A half-written file is neither the target's fault nor a pass."""
    (tmp_path / EMISSION).write_bytes(b"\x93")
    result = _result(tmp_path)
    assert result.outcome == "inconclusive"
    assert result.reason.startswith("kvcheck could not judge this emission: ")


def test_a_case_that_was_not_run_has_no_process() -> None:
    """Nothing is claimed of a child that there never was."""
    result = not_run(CASE, "unsupported", "takes bf16")
    assert (result.outcome, result.reason, result.seconds) == ("unsupported", "takes bf16", 0.0)
    assert (result.process.exit, result.process.signal, result.digest) == (None, None, None)
    assert result.axes["tokens"] == 2


def _found(*faults: str) -> tuple[Diagnosis, ...]:
    return tuple(Diagnosis(fault, "v", 1, 1, "", {}) for fault in faults)


@pytest.mark.parametrize(
    ("outcome", "found", "seen", "becomes"),
    [
        ("mismatch", ("sibling-pitch", "other"), True, "xfail"),
        ("violation", ("sibling-pitch",), True, "xfail"),
        ("crash", ("sibling-pitch",), False, "xfail"),
        ("mismatch", ("other", "sibling-pitch"), True, "mismatch"),
        ("mismatch", (), True, "mismatch"),
        ("timeout", (), True, "timeout"),
        ("inconclusive", ("sibling-pitch",), True, "inconclusive"),
        ("refused", (), True, "refused"),
        ("pass", (), True, "xpass"),
        ("pass", (), False, "pass"),
    ],
)
def test_what_was_declared_is_expected(outcome: Outcome, found: tuple[str, ...], seen: bool, becomes: Outcome) -> None:
    """xfail only where the declared fault comes first; xpass only where it was observable."""
    index = SLUGS.index("sibling-pitch")
    assert expected(outcome, "sibling-pitch", _found(*found), (index,) if seen else ()) == becomes


def test_a_fault_that_kvcheck_does_not_know_is_never_an_unexpected_pass() -> None:
    """A declared slug without a detector can be neither found nor missed."""
    assert expected("pass", "no-such-fault", (), tuple(range(len(SLUGS)))) == "pass"


def _fenced(folder: Path, fault: str) -> None:
    """V between two fences, and where its process ended."""
    table = Table("fence", "end", (FencedTensors(("v",), 4096, 8192, 0, 16384),))
    (folder / TABLE).write_bytes(msgspec.msgpack.encode(table))
    (folder / FAULT).write_text(fault)


@pytest.mark.parametrize(
    ("fault", "reason", "expected_outcome", "named"),
    [
        ("8192 is read", "v is read 1 byte past its end, where nothing is mapped; killed by SIGSEGV in ", "xfail",
         ("foreign-read", "v")),
        ("4000 is written", "v is written 96 bytes before its beginning, where nothing is mapped; killed by ", "xfail",
         ("stray-write", "v")),
        ("64000 is read", "killed by SIGSEGV in the child's own start", "crash", None),
        ("", "killed by SIGSEGV in the child's own start", "crash", None),
    ],
)  # fmt: skip
def test_a_fence_says_who_was_overrun(
    tmp_path: Path, fault: str, reason: str, expected_outcome: Outcome, named: tuple[str, str] | None
) -> None:
    """A crash, with a sentence and what the access was; where its fault leads out of a tensor, it was expected."""
    _fenced(tmp_path, fault)
    ended = Ended(0, None, 11, 1.0, timed_out=False)
    result = _result(tmp_path, ended)
    assert (result.outcome, result.reason.startswith(reason)) == ("crash", True)
    assert [(found.fault, found.tensor) for found in result.diagnosis] == ([] if named is None else [named])
    declared = result_of(CASE, ended, tmp_path, INFO, expect_declared=True)
    assert (declared.outcome, declared.reason) == (expected_outcome, result.reason)


def _scene(folder: Path, case: Case, contract: Contract = CONTRACT) -> None:
    """What the child writes before the first launch."""
    placement = place(case, contract, Form(), Accepts(), cuda=False)
    ends = tuple((index << 24, (index << 24) + size) for index, size in enumerate(placement.allocations))
    bases = tuple(begin for begin, _ in ends)
    scene = Emission(case, contract, Form(), placement, bases, (), (), (), "cpu", ends)
    (folder / SCENE).write_bytes(msgspec.msgpack.encode(scene))


SIGNALLED = Ended(0, None, 11, 1.0, timed_out=False)
LATE = Ended(0, None, 9, 60.3, timed_out=True)
LIMITED = Ended(0, None, 9, 1.0, timed_out=False, limit="at 2 GiB of memory")


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [(SIGNALLED, "crash"), (LATE, "timeout"), (LIMITED, "crash"), (WELL, "crash")],
)
def test_a_kernel_that_ends_its_process_leaves_what_its_case_would_have_shown(
    tmp_path: Path, ended: Ended, outcome: Outcome
) -> None:
    """From where the case was placed: an odd last token would be missed, and no copy of a cache that is contiguous."""
    (tmp_path / STAGE).write_text("launch 1", encoding="utf-8")
    case = msgspec.structs.replace(CASE, layout="fence", k_view="qkv", v_view="kv", tokens=3)
    before = result_of(case, ended, tmp_path, INFO, expect_declared=False)
    assert (before.outcome, before.observable, before.shown) == (outcome, (), ())
    _scene(tmp_path, case)
    result = result_of(case, ended, tmp_path, INFO, expect_declared=False)
    assert {"sibling-pitch", "token-lost"} & {SLUGS[index] for index in result.observable} == {"sibling-pitch"}
    assert "token-lost: two tokens at a time" in {FORMS[index] for index in result.shown}
    assert msgspec.structs.replace(result, observable=(), shown=()) == before
    # Of another case, or damaged, it says nothing.
    assert result_of(CASE, ended, tmp_path, INFO, expect_declared=False).shown == ()
    (tmp_path / SCENE).write_bytes(b"no scene")
    assert result_of(case, ended, tmp_path, INFO, expect_declared=False) == before


@pytest.mark.parametrize(("kind", "shows"), [("crash", True), ("refused", False), ("inconclusive", False)])
def test_what_a_case_would_have_shown_is_said_where_its_kernel_failed(
    tmp_path: Path, kind: Literal["crash", "refused", "inconclusive"], shows: bool
) -> None:
    """A refusal fails nobody, and what kvcheck could not do is not the kernel's."""
    _scene(tmp_path, CASE)
    (tmp_path / STAGE).write_text("launch 1", encoding="utf-8")
    _say(tmp_path, Failure(kind, "it raised", "it raised"))
    assert (_result(tmp_path).outcome, bool(_result(tmp_path).shown)) == (kind, shows)


def test_a_case_that_could_not_be_judged_would_have_shown_nothing(tmp_path: Path) -> None:
    """The contract leaves open what a slot holds that tokens share."""
    contract = Contract(scale=Computed("token_head"), duplicate_slots="undefined")
    info = msgspec.structs.replace(INFO, contract=contract)
    for slots, shows in (("duplicates", False), ("ascending", True)):
        case = msgspec.structs.replace(CASE, slots=slots)
        _scene(tmp_path, case, contract)
        result = result_of(case, SIGNALLED, tmp_path, info, expect_declared=False)
        assert (result.outcome, bool(result.shown)) == ("crash", shows)


def test_on_cuda_an_illegal_access_says_what_was_fenced(tmp_path: Path) -> None:
    """The exception does not say where; the sentence lists the tensors. Any other exception says nothing of fences."""
    _fenced(tmp_path, "")
    _say(tmp_path, Failure("crash", "…\nCUDA error: an illegal memory access was encountered", "AcceleratorError"))
    result = _result(tmp_path)
    around = "CUDA does not say where; each of these ends at unmapped memory: v"
    assert (result.outcome, result.reason) == ("crash", f"AcceleratorError ({around})")
    assert result_of(CASE, WELL, tmp_path, INFO, expect_declared=True).outcome == "xfail"
    _say(tmp_path, Failure("crash", "ValueError", "ValueError"))
    assert (_result(tmp_path).reason, result_of(CASE, WELL, tmp_path, INFO, expect_declared=True).outcome) == (
        "ValueError",
        "crash",
    )


@pytest.mark.parametrize(("fault", "becomes"), [("rounding-mode", "crash"), ("foreign-read", "xfail")])
def test_a_fence_expects_no_fault_that_stays_inside_a_tensor(fault: str, becomes: Outcome) -> None:
    """A kernel that was declared to round wrongly, and runs out of its tensors, does what nobody expected."""
    assert expected("crash", fault, (), (), stopped=True) == becomes
    assert expected("crash", fault, (), ()) == "crash"


def test_failing_cases_keep_their_emission(tmp_path: Path) -> None:
    """Under the case's id; a pass keeps nothing, and neither does what is too large."""
    case_folder, kept = tmp_path / "case", tmp_path / "kept"
    case_folder.mkdir()
    (case_folder / EMISSION).write_bytes(b"emission")
    keep_emission(kept, not_run(CASE, "pass", ""), case_folder)
    assert not kept.exists()
    failed = not_run(CASE, "mismatch", "1 code wrong")
    keep_emission(kept, failed, case_folder)
    assert [(file.name, file.read_bytes()) for file in kept.iterdir()] == [(f"{failed.id}.msgpack", b"emission")]
    (case_folder / EMISSION).write_bytes(bytes(LARGEST + 1))
    keep_emission(kept, not_run(Case(tokens=3), "mismatch", ""), case_folder)
    assert len(list(kept.iterdir())) == 1


def test_a_folder_that_cannot_be_made_loses_only_the_copy(tmp_path: Path) -> None:
    """A full or read-only disk does not stop the run."""
    (tmp_path / EMISSION).write_bytes(b"emission")
    (tmp_path / "file").write_bytes(b"")
    keep_emission(tmp_path / "file" / "kept", not_run(CASE, "mismatch", ""), tmp_path)
    assert not (tmp_path / "file" / "kept").exists()


def test_a_process_that_could_not_be_started_or_set_up_says_nothing_of_its_case(tmp_path: Path) -> None:
    """Once the case has begun the same exit status is its own."""
    without = Ended(0, None, None, 0.0, timed_out=False, outside=True, unstarted="no room")
    assert _of(tmp_path, without) == ("inconclusive", "its process could not be started: no room")
    unset = Ended(0, UNSET, None, 0.1, timed_out=False)
    assert _of(tmp_path, unset) == ("inconclusive", "its process could not be set up")
    (tmp_path / STAGE).write_text("launch 1", encoding="ascii")
    assert _of(tmp_path, unset) == ("crash", "exited with status 70 in launch 1")


def _of(folder: Path, ended: Ended) -> tuple[str, str]:
    result = result_of(Case(), ended, folder, INFO, expect_declared=False)
    return result.outcome, result.reason
