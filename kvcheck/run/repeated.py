"""What several processes made of one case: a kernel that stores other bytes the next time is not right by luck."""

from __future__ import annotations

import msgspec

from kvcheck.schema import CaseResult


def with_repetition(result: CaseResult, again: CaseResult, process: int) -> CaseResult:
    """A case's result beside that of one more process, the `process`-th from 1. It never gets better.

    A pass that ends otherwise there, or with other bytes, is a violation. What could not be judged there is said.
    """
    seen = msgspec.structs.replace(result, determinism=msgspec.structs.replace(result.determinism, processes=process))
    if result.outcome != "pass":
        return result
    if again.outcome == "inconclusive":
        return msgspec.structs.replace(seen, outcome="inconclusive", reason=f"process {process}: {again.reason}")
    if again.outcome != "pass":
        why = f" ({again.reason})" if again.reason else ""
        reason = f"nondeterministic: passes in process 1, and in process {process} ends as {again.outcome}{why}"
        return msgspec.structs.replace(seen, outcome="violation", reason=reason)
    if again.digest != result.digest:
        reason = f"nondeterministic: process {process} stored other bytes than process 1, though both pass"
        return msgspec.structs.replace(seen, outcome="violation", reason=reason)
    return seen
