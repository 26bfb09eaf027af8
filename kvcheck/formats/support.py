"""Which contracts can be judged, and which of their parts are exact."""

from __future__ import annotations

from kvcheck.contract import Computed, Contract
from kvcheck.errors import FormatError
from kvcheck.formats.apply import contract_format, contract_policy
from kvcheck.formats.spec import policy_error

#: Beyond this declared error an interval's end is no longer exact in float64 (`interval`).
GREATEST_ULPS = 32


def exact_arithmetic(contract: Contract) -> bool:
    """Whether there is one right code for each value and scale: the contract declares no error in ulps."""
    return contract.declared_ulps == 0


def is_supported(contract: Contract) -> str | None:
    """Why codes and scales of this contract cannot be judged, in one line, or None where they can."""
    try:
        reason = policy_error(contract_format(contract), contract_policy(contract))
    except FormatError as error:
        reason = str(error)
    return reason or _ulps_error(contract) or _scale_error(contract)


def _ulps_error(contract: Contract) -> str | None:
    """Why the declared error of the codes cannot be judged, or None."""
    ulps = contract.declared_ulps
    if ulps > GREATEST_ULPS:
        return f"apply declares {ulps} ulps; intervals are exact from 0 to {GREATEST_ULPS}"
    if ulps and contract.compute != "fp32":
        return f"apply declares {ulps} ulps of fp32, and compute is {contract.compute}"
    return None


def _scale_error(contract: Contract) -> str | None:
    """Why the scale rule cannot be judged, or None."""
    rule = contract.scale
    if isinstance(rule, Computed) and rule.declared_ulps > GREATEST_ULPS:
        return f"the scale declares {rule.declared_ulps} ulps; intervals are exact from 0 to {GREATEST_ULPS}"
    return None
