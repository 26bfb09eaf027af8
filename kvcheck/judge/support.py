"""Contracts and cases that the judge cannot decide, each with its reason."""

from __future__ import annotations

import numpy as np

from kvcheck.contract import Computed, Contract
from kvcheck.formats.arithmetic import is_supported
from kvcheck.judge.subject import Indices


def contract_reason(contract: Contract) -> str:
    """Why no case of this contract can be judged; empty where cases can."""
    if isinstance(contract.scale, Computed) and contract.scale.granularity in ("head", "tensor"):
        return f"a scale computed per {contract.scale.granularity} has no place in a cache's rows yet"
    return is_supported(contract) or ""


def slots_reason(contract: Contract, slots: Indices) -> str:
    """Why this case's slot ids `[tokens]` leave the contract's bytes open; empty where they don't."""
    if contract.negative_slots != "skip" and (slots < 0).any():
        return f"the contract says negative_slots={contract.negative_slots!r} and the case has one"
    kept = slots[slots >= 0]
    if contract.duplicate_slots == "undefined" and len(np.unique(kept)) != len(kept):
        return "the contract says duplicate_slots='undefined' and tokens of the case share one"
    return ""
