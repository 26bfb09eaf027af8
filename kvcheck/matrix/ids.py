"""Names of cases: a hash that is the same on every machine, and that a new axis does not change."""

from __future__ import annotations

import hashlib
import json

from kvcheck.matrix.axes import AXES, Value
from kvcheck.schema import Case


def case_id(case: Case) -> str:
    """Return ten hex characters: a hash of the axes that differ from their default, and of the seed."""
    chosen = {name: value for name, value in axes_of(case).items() if value != AXES[name].default}
    if case.head_dim_v == case.head_dim:
        del chosen["head_dim_v"]
    text = json.dumps({**chosen, "seed": case.seed}, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()


def axes_of(case: Case) -> dict[str, Value]:
    """Return every axis of a case and its value, without those left to the target or to K."""
    named = ((name, getattr(case, name)) for name in AXES)
    return {name: value for name, value in named if value is not None}
