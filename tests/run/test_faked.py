"""Endings of runs under the tool that wrappers of it are known to take for clean, or to lose: as whole runs."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from sanitizer.outputs import printed, record, saved

from kvcheck.run.compute_sanitizer import FOUND

from .test_saw import AT, told

BANNER = "========= COMPUTE-SANITIZER\n"
READ = "Invalid __global__ read of size 2 bytes"
THREE = saved(record(READ, address=AT + 2304 * token, block=token) for token in (3, 4, 5))
TEXT = f"""========= {READ}
=========     at store_kernel+0xe0 in /kernels/store.py:58
=========     by thread (0,0,0) in block (3,0,0)
=========     Access to {AT + 6912:#x} is out of bounds
"""


class Faked(NamedTuple):
    """What a run left behind, and what it is to be taken for."""

    says: str
    state: str
    xml: bytes = saved()
    text: str = printed(0)
    exit: int | None = 0
    logged: bool = True


FAKED = {
    "a clean run": Faked("", "clean"),
    "a clean run, one error in words of none": Faked("", "clean", text=printed(0, "error")),
    "records": Faked("", "records", THREE, printed(3), FOUND),
    "one record": Faked("", "records", saved([record(READ, address=AT)]), printed(1, "error"), FOUND),
    "records, and an exit status of 0": Faked("status 0, not 66", "records", THREE, printed(3), 0),
    "records, and no summary": Faked("no summary", "records", THREE, BANNER, FOUND),
    "records, and a summary of none": Faked("counts 0, and 3 were saved", "records", THREE, printed(0), 0),
    "no summary": Faked("no summary", "inconclusive", text=BANNER),
    "no text at all": Faked("no summary", "inconclusive", text=""),
    "a summary of another number": Faked("counts 192, and 0 were saved", "inconclusive", text=printed(192), exit=FOUND),
    "a summary of one, singular": Faked("counts 1, and 0", "inconclusive", text=printed(1, "error"), exit=FOUND),
    "a summary with separators": Faked(
        "counts 1234, and 0", "inconclusive", text=f"{BANNER}========= ERROR SUMMARY: 1,234 errors\n", exit=FOUND
    ),
    "two summaries": Faked("summaries differ", "inconclusive", text=printed(0) + printed(4)),
    "a second summary that cannot be read": Faked(
        "cannot be read: ERROR SUMMARY: 1.234 errors", "inconclusive",
        text=f"{printed(0)}========= ERROR SUMMARY: 1.234 errors\n",
    ),
    "an exit status without a record": Faked("ended with status 1", "inconclusive", exit=1),
    "the status of a finding without one": Faked("ended with status 66", "inconclusive", exit=FOUND),
    "a program that a signal ended": Faked("ended with status -11", "inconclusive", exit=-11),
    "a tool that was killed": Faked("killed at its time limit", "inconclusive", exit=None),
    "no saved records": Faked("no records were saved", "inconclusive", xml=b""),
    "half of the saved records": Faked("no XML", "inconclusive", THREE[: len(THREE) // 2], printed(3), FOUND),
    "half of a file without records": Faked("no XML", "inconclusive", xml=saved()[:-5]),
    "no saved records, but printed ones": Faked(
        "no records were saved", "records", b"", f"{BANNER}{TEXT}========= ERROR SUMMARY: 1 error\n", FOUND
    ),
    "records cut off by a limit": Faked(
        "errors were not printed", "records", THREE, f"{BANNER}========= ERROR SUMMARY: 192 errors\n"
        "========= ERROR SUMMARY: 189 errors were not printed. Use --print-limit option\n", FOUND,
    ),
    "a tool that did not attach in time": Faked(
        "Timed out", "inconclusive", text=f"{BANNER}========= Error: Failed to attach: Timed out\n{printed(0)}"
    ),
    "a program that made no call": Faked(
        "terminated before", "inconclusive", xml=b"",
        text=f"{BANNER}========= Error: Target application terminated before first instrumented API call\n", exit=255,
    ),
    "a mistake of the tool's own": Faked(
        "Internal Sanitizer Error", "inconclusive", text=f"{BANNER}========= Internal Sanitizer Error\n{printed(0)}"
    ),
    "words that nobody knows": Faked("Something new", "inconclusive", text=f"{printed(0)}========= Something new\n"),
    "a record in the log alone": Faked(
        "its log has 1 records, and 0 were saved", "inconclusive",
        text=f"{BANNER}{TEXT}========= ERROR SUMMARY: 0 errors\n",
    ),
    "half of a line": Faked("the tool said: Inval", "inconclusive", text=f"===Inval\n{printed(0)}"),
    "no tool": Faked("kept no log", "inconclusive", b"", "bash: compute-sanitizer: not found\n", 127, logged=False),
    "a summary that the program printed": Faked("kept no log", "inconclusive", logged=False),
    "records that the program printed": Faked(
        "kept no log", "inconclusive", b"", TEXT + printed(1), FOUND, logged=False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAKED)
def test_what_it_is_taken_for(name: str) -> None:
    """Clean where all speaks for it; records wherever there are any; what speaks against it in one line."""
    faked = FAKED[name]
    run = told(faked.xml, faked.text, faked.exit, logged=faked.logged)
    assert run.state == faked.state
    assert faked.says in run.reason
    assert bool(run.reason) == bool(faked.says)
    assert "\n" not in run.reason
    for each in run.records:
        assert (each.kind, each.line, each.tensor) == ("out-of-bounds", 58, "v")


def test_the_table_has_its_number() -> None:
    """Thirteen that slip through were asked for."""
    assert sum(faked.state != "clean" for faked in FAKED.values()) >= 20
