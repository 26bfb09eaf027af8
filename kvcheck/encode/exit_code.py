"""The exit status that results earn: a failure first, then what is inconclusive, then nothing compared."""

from __future__ import annotations

from collections.abc import Sequence

from kvcheck.encode.facts import EncoderResult

PASSED, FAILED, INCONCLUSIVE, NOTHING_COMPARED = 0, 1, 3, 4


def exit_code(results: Sequence[EncoderResult]) -> int:
    """0 every code compared is right; 1 one differs, or an encoder crashed; 3 something is unclear; 4 none compared."""
    outcomes = {result.outcome for result in results}
    if outcomes & {"mismatch", "crash", "timeout"}:
        return FAILED
    if "inconclusive" in outcomes:
        return INCONCLUSIVE
    return PASSED if any(result.inputs for result in results) else NOTHING_COMPARED
