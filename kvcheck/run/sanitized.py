"""What a sanitizer saw, joined to what the judge said: the bytes are the verdict, the sanitizer is a witness."""

from __future__ import annotations

import msgspec

from kvcheck.sanitizer.agreement import agreement
from kvcheck.sanitizer.sentence import sentence
from kvcheck.schema import CaseResult, Outcome, SanitizerRun

#: Outcomes that records make worse: the bytes are right all the same, or nothing is known of them.
_BETTER: frozenset[Outcome] = frozenset({"inconclusive", "refused", "unsupported", "xfail", "pass"})


def with_runs(result: CaseResult, runs: tuple[SanitizerRun, ...]) -> CaseResult:
    """The result of a case that was also run under sanitizers.

    Records are a violation, unless the bytes say worse. What a tool could not vouch for makes a pass inconclusive: a
    pass under a sanitizer means that it was seen to look.
    """
    runs = tuple(
        msgspec.structs.replace(run, agreement=agreement(run.tool, run.records, result.codes, result.diagnosis))
        for run in runs
    )
    told = tuple(sentence(record) for run in runs for record in run.records)
    result = msgspec.structs.replace(result, sanitizer=(*result.sanitizer, *told), sanitized=(*result.sanitized, *runs))
    if told and result.outcome in _BETTER:
        return msgspec.structs.replace(result, outcome="violation", reason=told[0])
    doubtful = next((run for run in runs if run.state == "inconclusive"), None)
    if doubtful is not None and result.outcome == "pass":
        reason = f"{doubtful.tool} says nothing certain: {doubtful.reason}"
        return msgspec.structs.replace(result, outcome="inconclusive", reason=reason)
    return result
