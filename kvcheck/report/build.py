"""Build a report from the results of its cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import kvcheck
from kvcheck.report import outcomes
from kvcheck.report.observable import unobservable
from kvcheck.schema import CaseResult, Execution, Report, TargetFacts

SCHEMA = "kvcheck.report/1"

#: What an environment says, in the order in which it is shown. A value that is not known is None.
ENVIRONMENT = (
    "gpu",
    "arch",
    "driver",
    "cuda",
    "torch",
    "triton",
    "python",
    "platform",
    "torch_cast",
    "fp_fusion",
    "sanitizer",
)


def build(  # noqa: PLR0913 - a report is these facts; each is named at the call
    results: Sequence[CaseResult],
    *,
    planned: int,
    environment: Mapping[str, str | int | float | bool | None],
    target: TargetFacts,
    arch: str,
    execution: Execution,
    command: str,
    faults: Sequence[str],
    forms: Sequence[str] = (),
    now: datetime | None = None,
) -> Report:
    """The report of one target on one arch.

    `results` come in the order of the matrix, so that equal runs give equal files. `command` is the command line that
    ran. `faults` is the list that the cases' `observable` points into, `forms` the one for `shown`. `now` is an aware
    time; the present where None. Raises ValueError where a case points outside `faults`.
    """
    created = (now or datetime.now(timezone.utc)).astimezone(timezone.utc)
    return Report(
        schema=SCHEMA,
        kvcheck=kvcheck.__version__,
        created=created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        planned=planned,
        environment={key: None for key in ENVIRONMENT} | dict(environment),  # noqa: C420 - fromkeys narrows to None
        target=target,
        arch=arch,
        execution=execution,
        command=command,
        summary=outcomes.count(results),
        faults=tuple(faults),
        forms=tuple(forms),
        unobservable=unobservable(faults, results),
        cases=tuple(results),
    )
