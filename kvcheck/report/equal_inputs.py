"""Cases of the same logical input must leave the same bytes, whatever the view and layout: a check across cases.

Only passes are asked. A contract that declares an error, or leaves codes open, lets two of them differ and both be
right; then the bytes follow where the tensors lie, which is worth knowing. Where nothing is declared or open, unlike
bytes cannot both pass: this then checks the judge.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from kvcheck.report import axes
from kvcheck.report.axes import Value
from kvcheck.schema import CaseResult, Digest, Report
from kvcheck.views import repeats

#: The axes that decide what K, V, slots and given scales hold. The others decide where they lie.
_LOGICAL = (
    "k_values", "v_values", "k_scale", "v_scale", "tokens", "heads", "head_dim", "head_dim_v", "dtype", "slots",
    "form", "page", "seed",
)  # fmt: skip


class EqualInputs(msgspec.Struct, frozen=True):
    """`cases` passes share their inputs with another; `unlike` are pairs that left unlike bytes, the first of each."""

    cases: int
    unlike: tuple[tuple[str, str], ...]


def equal_inputs(report: Report) -> EqualInputs:
    """Hold passing cases of equal logical inputs against each other, by their digests."""
    alike: defaultdict[tuple[Value | bool, ...], list[tuple[str, Digest]]] = defaultdict(list)
    for case in report.cases:
        if case.outcome == "pass" and case.codes.compared and case.digest is not None:
            alike[_input(case)].append((case.id, case.digest))
    groups = [group for group in alike.values() if len(group) > 1]
    unlike = [
        (group[0][0], other)
        for group in groups
        if (other := next((name for name, digest in group if digest != group[0][1]), None)) is not None
    ]
    return EqualInputs(sum(map(len, groups)), tuple(unlike))


def _input(case: CaseResult) -> tuple[Value | bool, ...]:
    every = axes.complete(case)
    return (*(every[name] for name in _LOGICAL), repeats(str(every["k_view"])), repeats(str(every["v_view"])))
