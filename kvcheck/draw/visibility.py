"""How large poison must be to be seen, and where none could be."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kvcheck.contract import Contract, Given, LoadContract
from kvcheck.draw.inputs import Floats, Inputs, amax
from kvcheck.draw.poison import can_be_seen, level, stands_out
from kvcheck.formats.decode import decode
from kvcheck.formats.spec import find_format
from kvcheck.schema import Case, Poison

#: Codes above zero from which on random poison has many different codes.
STEPS = 8


def independence_reason(case: Case, contract: Contract | LoadContract, inputs: Inputs) -> str:
    """Why poison could not be seen in this case, or an empty string."""
    if isinstance(contract, LoadContract):
        return ""  # what must not be read there is prefill, which differs in every byte
    for name, floats, ceiling in _sources(contract, inputs):
        if not floats.size:
            continue
        if not can_be_seen(amax(floats), case.dtype, ceiling):
            return f"no {case.dtype} value is larger than {name.upper()}'s amax, so no poison would show"
        if ceiling is not None and not stands_out(amax(floats), case.dtype, ceiling, _floor(contract, ceiling)):
            return (
                f"{name.upper()}'s scale turns every {case.dtype} value into codes near zero, so no poison would show"
            )
    return ""


def _floor(contract: Contract, ceiling: float) -> float:
    """The source value whose code lies a few steps above zero, where `ceiling` has the greatest code."""
    few = float(decode(np.array([STEPS], np.uint8), contract.format)[0])
    return ceiling * (few / _greatest_code_value(contract))


def _sources(contract: Contract | LoadContract, inputs: Inputs) -> list[tuple[str, Floats, float | None]]:
    return [
        ("k", inputs.k_float, _ceiling(contract, inputs.k_scale)),
        ("v", inputs.v_float, _ceiling(contract, inputs.v_scale)),
    ]


def _ceiling(contract: Contract | LoadContract, scale: Floats | None) -> float | None:
    """The largest source value that a given scale does not saturate, or None where the scale is computed."""
    if not isinstance(contract, Contract):
        return None
    top = _greatest_code_value(contract)
    if contract.scale is None:
        return top
    if not isinstance(contract.scale, Given) or scale is None:
        return None
    least = float(scale.min())
    return top / float(scale.max()) if contract.scale.direction == "multiplier" else top * least


def _greatest_code_value(contract: Contract) -> float:
    return _greatest(contract.format)


@lru_cache
def _greatest(number_format: str) -> float:
    found = find_format(number_format)
    return float(decode(np.array([found.largest], np.uint8), found)[0])


def poison_level(case: Case, contract: Contract | LoadContract, inputs: Inputs, owner: str, letter: Poison) -> float:
    """The power of two that poison's magnitudes lie below near an owner: `k`, `v`, or `kv` for memory they share."""
    chosen = [source for source in _sources(contract, inputs) if source[0] in owner]
    top = max(amax(floats) for _, floats, _ in chosen)
    ceilings = [ceiling for _, _, ceiling in chosen if ceiling is not None]
    if not ceilings or isinstance(contract, LoadContract):
        return level(top, case.dtype, letter, None)
    return level(top, case.dtype, letter, min(ceilings), _floor(contract, max(ceilings)))


def ordinary_top(inputs: Inputs, owner: str) -> float:
    """The largest magnitude of an owner's own values; one where all are zero."""
    top = max(amax(floats) for name, floats in (("k", inputs.k_float), ("v", inputs.v_float)) if name in owner)
    return top if top > 0 else 1.0
