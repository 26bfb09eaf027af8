"""Whatever a kernel does to its process costs exactly its own case: all others pass, and nothing is left running."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvcheck.schema import CaseResult, Outcome

from .command import KERNELS, Ran, by_axis, matrix, outcomes, write_matrix
from .once import once
from .processes import is_running

#: For each number of tokens at which `misbehaving.py` goes wrong: how, the outcome, and what the report says.
WAYS: dict[int, tuple[str, Outcome, str]] = {
    2: ("raises", "crash", "RuntimeError: boom"),
    3: ("sys.exit(0)", "crash", "SystemExit: 0"),
    4: ("os._exit(0)", "crash", "exited with status 0 before the case was done, in launch 1"),
    5: ("os._exit(3)", "crash", "exited with status 3 in launch 1"),
    6: ("segfaults", "crash", "killed by SIGSEGV in launch 1"),
    7: ("kills itself", "crash", "killed by SIGKILL in launch 1"),
    8: ("has a typo", "crash", "NameError: name 'undefined_name' is not defined"),
    9: ("hangs", "timeout", "at its time limit, in launch 1"),
    10: ("spins, deaf to signals", "timeout", "at its time limit, in launch 1"),
    11: ("stops itself", "timeout", "at its time limit, in launch 1"),
    12: ("prints what answers look like", "pass", ""),
    13: ("leaves a child", "pass", ""),
    14: ("leaves a child in a session of its own", "pass", ""),
    15: ("closes all files", "pass", ""),
    16: ("aborts", "crash", "killed by SIGABRT in launch 1"),
    17: ("kills its group", "crash", "killed by SIGKILL in launch 1"),
    18: ("refuses", "refused", "Refused: k is not to my liking"),
    19: ("refuses by a subclass of what it lists", "refused", "UnsupportedHere: not these"),
    20: ("refuses in launch 2", "crash", "RuntimeError: refused in launch 2"),
    21: ("raises KeyboardInterrupt", "crash", "KeyboardInterrupt"),
    25: ("fills its output", "crash", "killed at its limit of 64 MiB of printed text, in launch 1"),
    26: ("corrupts its heap", "crash", "killed by SIGABRT in launch 1"),
    27: ("ignores every signal", "pass", ""),
}
#: How each of them ends where everything is stored before it goes wrong; the rest ends as above.
LATE: dict[int, tuple[Outcome, str]] = {
    18: ("crash", "RuntimeError: refused in launch 1, after it had stored something"),
    19: ("crash", "UnsupportedHere: not these"),  # `late` does not list it
    20: ("pass", ""),  # only `misbehaving` counts launches
}
#: Numbers of tokens at which it does nothing wrong.
WELL = [1, 22, 23, 24]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run writes."""
    return tmp_path_factory.mktemp("misbehaving")


@pytest.fixture(scope="module")
def ran(folder: Path) -> Ran:
    """One run of both targets, good and bad cases mixed, four at a time."""
    tokens = [1, *range(2, 12), 22, *range(12, 17), 23, *range(17, 22), 24, 25, 26, 27]
    cases = write_matrix(folder / "tokens.toml", tokens=tokens, heads=1, head_dim=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KVCHECK_TEST_PIDS", str(folder / "pids"))
        return matrix(folder / "out", cases, "--target", KERNELS / "misbehaving.py", "-j", 4, "--timeout", 5)


@pytest.mark.parametrize("target", ["misbehaving", "late"])
@pytest.mark.parametrize("tokens", WAYS, ids=lambda tokens: WAYS[tokens][0])
def test_a_kernel_that_goes_wrong_costs_its_own_case(ran: Ran, target: str, tokens: int) -> None:
    """The outcome says how the process ended; where it ended well, the bytes are judged."""
    _, outcome, says = WAYS[tokens]
    if target == "late" and tokens in LATE:
        outcome, says = LATE[tokens]
    case = by_axis(ran.reports[target], "tokens")[tokens]
    assert (case.outcome, says in case.reason) == (outcome, True), case.reason
    assert (case.codes.compared > 0) == (outcome == "pass")


@pytest.mark.parametrize("target", ["misbehaving", "late"])
def test_the_cases_beside_it_pass(ran: Ran, target: str) -> None:
    """No case is lost, and those that do nothing wrong pass."""
    cases = by_axis(ran.reports[target], "tokens")
    assert sorted(cases) == sorted([*WAYS, *WELL])
    assert [cases[tokens].outcome for tokens in WELL] == ["pass"] * len(WELL)
    assert ran.code == 1


def test_a_typo_is_shown_with_its_traceback(ran: Ran) -> None:
    """The line that raised is in the report, so that the mistake can be found from it alone."""
    case = by_axis(ran.reports["misbehaving"], "tokens")[8]
    assert case.process.error is not None
    assert "Traceback" in case.process.error
    assert "misbehaving.py" in case.process.error
    assert "undefined_name()" in case.process.error


def test_a_segfault_is_shown_with_its_signal_and_where_python_was(ran: Ran) -> None:
    """Exit status and signal are apart, and the stack that faulthandler printed is kept."""
    process = by_axis(ran.reports["misbehaving"], "tokens")[6].process
    assert (process.exit, process.signal) == (None, "SIGSEGV")
    assert "_segfaults" in (process.error or "")


def test_a_host_target_is_said_to_be_one(ran: Ran) -> None:
    """Torch on the CPU is neither `native` nor `interpreted`."""
    assert {report.execution for report in ran.reports.values()} == {"host"}
    assert {report.environment["gpu"] for report in ran.reports.values()} == {None}


def test_processes_that_kernels_leave_behind_are_ended(ran: Ran, folder: Path) -> None:
    """Forks are ended with the run, whether they stayed in the case's session or left it."""
    assert ran.code == 1
    pids = [int(line) for line in (folder / "pids").read_text(encoding="ascii").split()]
    # For each target, three launches of two ways to fork, and a case that hangs; more where they ran behind others too.
    assert len(pids) >= 2 * (2 * 3 + 1)
    assert [pid for pid in pids if is_running(pid)] == []


def test_a_kernel_that_kills_the_process_it_was_forked_from_costs_its_own_case(tmp_path: Path) -> None:
    """The cases that were under way with it run again; so do the targets that come after it in the file."""
    cases = write_matrix(tmp_path / "tokens.toml", tokens=[1, 2, 3, 4, 5, 6], heads=1, head_dim=8)
    ran = matrix(tmp_path / "out", cases, "--target", KERNELS / "killer.py", "-j", 3)
    killer = by_axis(ran.reports["killer"], "tokens")
    assert {tokens: case.outcome for tokens, case in killer.items() if case.outcome != "pass"} == {2: "crash"}
    assert len(killer) == 6
    assert "alone" in killer[2].reason
    assert outcomes(ran.reports["bystander"]) == ["pass"] * 6
    assert ran.code == 1


@pytest.fixture(scope="module")
def careless(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run of the targets that store the right codes and still do wrong. Nothing is asked of a second look."""
    folder = tmp_path_factory.mktemp("careless")
    cases = write_matrix(folder / "tokens.toml", tokens=[2, 4], heads=2, head_dim=8)
    with once():
        return matrix(folder / "out", cases, "--target", KERNELS / "careless.py")


def _violations(case: CaseResult) -> dict[str, int]:
    found = {
        "lost": case.writes.lost,
        "stray": case.writes.stray,
        "wrong": case.codes.wrong + case.scales.wrong,
        "independence": case.independence.differs or 0,
        "determinism": case.determinism.values_drift,
        "inputs": case.inputs.changed,
    }
    return {channel: count for channel, count in found.items() if count}


@pytest.mark.parametrize(
    ("target", "outcome", "channel", "launches"),
    [
        ("clones-cache", "mismatch", "lost", 4),
        ("reads-behind-v", "violation", "independence", 3),
        ("reads-cache", "violation", "independence", 4),
        ("rolls-dice", "violation", "determinism", 4),
        ("mutates-input", "violation", "inputs", 3),
    ],
)
def test_a_store_of_right_codes_is_condemned_by_the_channel_that_sees_it(
    careless: Ran, target: str, outcome: Outcome, channel: str, launches: int
) -> None:
    """Each is seen by one channel alone, in every case, and none reads as wrong codes."""
    for case in careless.reports[target].cases:
        assert case.outcome == outcome
        assert set(_violations(case)) == {channel}
        assert case.determinism.launches == launches


def test_a_copy_of_the_cache_loses_every_byte_and_is_listed(careless: Ran) -> None:
    """All codes and scales of all tokens are lost, and the report says that the cache was copied."""
    for case in careless.reports["clones-cache"].cases:
        tokens = int(case.axes["tokens"])
        assert case.writes.lost == 2 * tokens * 2 * (8 + 4)
        assert {copy.tensor for copy in case.copies} >= {"k_codes", "v_codes", "k_scales", "v_scales"}


def test_only_the_input_that_was_changed_is_named(careless: Ran) -> None:
    """K was scaled, V and the slots were not."""
    assert {case.inputs.tensors for case in careless.reports["mutates-input"].cases} == {("k",)}


def test_a_refusal_after_a_byte_has_changed_is_a_crash(careless: Ran) -> None:
    """One byte is enough: who refuses must leave everything as it was."""
    for case in careless.reports["refuses-late"].cases:
        assert case.outcome == "crash"
        assert "after it had stored something" in case.reason


def test_legal_scales_pass_and_are_counted(careless: Ran) -> None:
    """An ulp that the contract declares is a pass, counted apart; the right store has none."""
    assert {(case.outcome, case.scales.legal > 0) for case in careless.reports["legal"].cases} == {("pass", True)}
    assert {(case.outcome, case.scales.legal) for case in careless.reports["right"].cases} == {("pass", 0)}
