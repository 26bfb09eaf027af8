"""The tool's own outputs as whole runs: what each is taken for, and that damage never makes one clean."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sanitizer.damage import damaged
from sanitizer.recordings import Left, recorded

from kvcheck.run.compute_sanitizer import FOUND
from kvcheck.schema import SanitizerRun

from .test_saw import told

RUNS = recorded()

#: Runs of right kernels that came to their end.
CLEAN = {
    "initcheck-clean", "initcheck-known-right", "memcheck-clean", "memcheck-known-right", "memcheck-leak-none",
    # The kernel prints a summary of its own, which is not in the tool's log.
    "memcheck-prints", "racecheck-clean", "synccheck-clean",
}  # fmt: skip

#: Runs without a record that are not clean, and why.
DOUBTFUL = {
    "memcheck-abort": "process didn't terminate successfully",
    "memcheck-attach-timeout": "killed at its time limit",
    "memcheck-exit-3": "Target application returned an error",
    "memcheck-exit-66": "Target application returned an error",
    "memcheck-kill-itself": "process didn't terminate successfully",
    "memcheck-killed": "killed at its time limit",
    "memcheck-missing": "Target application doesn't exist",
    "memcheck-no-cuda": "terminated before first instrumented API call",
    "memcheck-segfault": "process didn't terminate successfully",
    "memcheck-terminated": "it printed no summary; it exited with status -15",
    "memcheck-unknown-option": "it kept no log; it exited with status 255",
}

#: Runs whose records are not all that there were, or that ended otherwise than they should, and what is said of it.
LAME = {
    "initcheck-limit2": "6 errors were not printed", "memcheck-limit1-misaligned": "1 errors were not printed",
    "memcheck-limit2": "2 errors were not printed", "memcheck-past-exit-3": "Target application returned an error",
    "memcheck-quiet": "it printed no summary", "racecheck-limit1": "its summary counts 256 hazards, and 1 were saved",
}  # fmt: skip

#: Runs as kvcheck makes none: without a log of their own, and nothing saved. What the program prints is no proof.
PRINTED = {name for name, run in RUNS.items() if not run.logged}


def taken(run: Left) -> SanitizerRun:
    """What a run is taken for."""
    return told(run.xml or b"", run.text, run.exit, run.tool, logged=run.logged)


@pytest.mark.parametrize("name", RUNS)
def test_what_a_run_is_taken_for(name: str) -> None:
    """Clean, in doubt with the reason, or with records; and of those whether they are all."""
    run = taken(RUNS[name])
    if name in CLEAN:
        assert (run.state, run.reason, run.records) == ("clean", "", ())
    elif name in DOUBTFUL or name in PRINTED:
        assert (run.state, run.records) == ("inconclusive", ())
        assert DOUBTFUL.get(name, "it kept no log") in run.reason
    else:
        assert run.state == "records"
        assert LAME.get(name, "") in run.reason
        assert bool(run.reason) == (name in LAME)
        assert sum(each.count for each in run.records) == run.counted or name in {*LAME, *HAZARDS}


#: A race of which the summary counts one, and the record how many hazards it is.
HAZARDS = {"racecheck-race", "racecheck-race-write"}


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if run.logged and run.xml and run.exit == FOUND])
def test_torn_records_are_read_from_the_text(name: str) -> None:
    """Half of the saved ones: the printed ones are told in their place, with their line, and never clean."""
    run = RUNS[name]
    assert run.xml is not None
    found = taken(run._replace(xml=run.xml[: len(run.xml) // 2]))
    if name in DOUBTFUL:
        assert (found.state, found.records) == ("inconclusive", ())
        return
    assert found.state == "records"
    assert found.reason
    assert {(each.kind, each.line) for each in found.records} == {(each.kind, each.line) for each in taken(run).records}


BAD = [
    run for run in RUNS.values() if run.logged and run.xml is not None and run.exit == FOUND and b"<record>" in run.xml
]
ALL = [run for run in RUNS.values() if run.logged]


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_damaged_records_are_never_clean(data: st.DataObject) -> None:
    """The text still has them, and so has the exit status."""
    run = data.draw(st.sampled_from(BAD))
    assert run.xml is not None
    assert taken(run._replace(xml=data.draw(damaged(run.xml)))).state != "clean"


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_a_damaged_log_is_never_clean(data: st.DataObject) -> None:
    """The records still are there, whatever the log says and the tool exits with."""
    run = data.draw(st.sampled_from(BAD))
    text = data.draw(damaged(run.text.encode())).decode(errors="replace")
    assert taken(run._replace(text=text, exit=data.draw(st.sampled_from((0, 1, FOUND, None))))).state == "records"


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_damage_to_both_is_never_clean(data: st.DataObject) -> None:
    """The exit status still says that something was found."""
    run = data.draw(st.sampled_from(BAD))
    assert run.xml is not None
    xml, text = data.draw(damaged(run.xml)), data.draw(damaged(run.text.encode())).decode(errors="replace")
    assert taken(run._replace(xml=xml, text=text)).state != "clean"


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_damage_to_a_run_in_doubt_takes_no_doubt_away(data: st.DataObject) -> None:
    """A run that did not end as it should: what is left of its words, none of them, does not make it clean."""
    name = data.draw(st.sampled_from(sorted(DOUBTFUL)))
    run = RUNS[name]
    text = data.draw(damaged(run.text.encode())).decode(errors="replace")
    assert taken(run._replace(text=text)).state != "clean"


@settings(max_examples=1000, deadline=None)
@given(st.data())
def test_damage_is_always_told_in_one_line(data: st.DataObject) -> None:
    """Of any run, clean ones too: some state, and a reason wherever it is in doubt."""
    run = data.draw(st.sampled_from(ALL))
    xml, text = data.draw(damaged(run.xml or b"x")), data.draw(damaged(run.text.encode())).decode(errors="replace")
    found = taken(run._replace(xml=xml, text=text, exit=data.draw(st.sampled_from((0, 1, FOUND, None)))))
    assert "\n" not in found.reason
    assert bool(found.reason) or found.state != "inconclusive"
    assert (found.state == "records") == bool(found.records)
