"""Clean only with proof: what is known to slip through wrappers of the tool does not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.sanitizer.ending import Ending, counted, doubt

from .outputs import printed

BANNER = "========= COMPUTE-SANITIZER\n"


def ended(status: int | None, text: str) -> Ending:
    """Tool and program as they were left."""
    return Ending(status, text, 66)


@pytest.mark.parametrize(
    ("status", "text", "records"),
    [
        (0, printed(0), 0), (66, printed(1, "error"), 1), (66, printed(192), 192),
        (66, BANNER + "========= ERROR SUMMARY: 1,234 errors\n", 1234),
        (0, "========= A_VARIABLE is not supported by compute-sanitizer, clearing it before launch\n" + printed(0), 0),
        (66, BANNER + "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n", 2),
        (66, BANNER + "========= LEAK SUMMARY: 64 bytes leaked in 1 allocations\n" + printed(1, "error"), 1),
    ],
)  # fmt: skip
def test_runs_that_are_what_they_say(status: int, text: str, records: int) -> None:
    """Summary, records and exit status agree."""
    assert doubt(ended(status, text), records) == ""


@pytest.mark.parametrize(
    ("status", "text", "records", "says"),
    [
        (0, BANNER, 0, "no summary"),
        (0, "", 0, "no summary"),
        (0, printed(3), 0, "counts 3, and 0 were saved"),
        (0, printed(1, "error"), 0, "counts 1, and 0 were saved"),
        (0, printed(2), 2, "exited with status 0, not 66"),
        (1, printed(0), 0, "ended with status 1"),
        (66, printed(0), 0, "ended with status 66"),
        (0, printed(0), 2, "counts 0, and 2 were saved"),
        (66, printed(192), 100, "counts 192, and 100 were saved"),
        (0, printed(0) + printed(4), 0, "summaries differ"),
        (None, BANNER, 0, "time limit"),
        (None, printed(0), 0, "time limit"),
        # As compute-sanitizer 2025.3.1 ends where there is no GPU; where its parts are not together; on no program.
        (255, BANNER + "========= Error: Target application terminated before first instrumented API call\n"
         "========= Error: couldn't find exit code.\n", 0, "Target application terminated"),
        (13, BANNER + "========= Unable to find injection library libsanitizer-collection.so\n", 0, "Unable to find"),
        (1, BANNER + "========= Target application doesn't exist or is not a valid executable\n", 0, "doesn't exist"),
        (0, BANNER + "========= Target application terminated before first instrumented API call\n" + printed(0), 0,
         "Target application terminated"),
        (66, "========= 92 errors were not printed. Use --print-limit option to adjust\n" + printed(192), 192,
         "92 errors were not printed"),
        (0, BANNER + "========= Internal Sanitizer Error: out of memory\n" + printed(0), 0, "Internal Sanitizer Error"),
        (0, BANNER + "========= Error: Failed to attach: Timed out\n" + printed(0), 0, "Timed out"),
        (127, "bash: compute-sanitizer: not found\n", 0, "no summary; it exited with status 127"),
        (0, BANNER + "========= ERROR SUMMARY: no errors\n", 0, "no summary"),
    ],
)  # fmt: skip
def test_what_slips_through_wrappers_does_not_here(status: int | None, text: str, records: int, says: str) -> None:
    """Each has its reason, in one line."""
    found = doubt(ended(status, text), records)
    assert says in found
    assert "\n" not in found


def test_counts() -> None:
    """Singular, plural, thousands; none where none is, or where two differ."""
    assert [counted(printed(each)) for each in (0, 7)] == [0, 7]
    assert counted(printed(0) + printed(0)) == 0
    assert counted("ERROR SUMMARY: 0 errors") is None
    assert counted("========= ERROR SUMMARY: 1,234,567 errors") == 1_234_567


@pytest.mark.parametrize("number", [",", "0,0", "00", "1,23", "12,", ",1", "9" * 5000, "\u0660"])
def test_a_damaged_number_is_no_count(number: str) -> None:
    """Not zero, and not another exception: the run is in doubt."""
    text = f"{BANNER}========= ERROR SUMMARY: {number} errors\n"
    assert counted(text) is None
    assert "no summary" in doubt(ended(0, text), 0)


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_summary_is_never_clean(data: st.DataObject) -> None:
    """Of a run with records, no cut or changed byte makes one without."""
    text = printed(data.draw(st.integers(1, 5000)))
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, len(text) - at))
    changed = text[:at] + data.draw(st.text(max_size=3)) + text[at + cut :]
    if counted(changed) != 0:
        assert doubt(ended(0, changed), 0) != ""
