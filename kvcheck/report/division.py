"""Whether the compiled kernels divide as the contract says: the likeliest slip of who writes one down from a source."""

from __future__ import annotations

from kvcheck.contract import Computed, Contract
from kvcheck.report.plain import one_line
from kvcheck.schema import Report


def division(report: Report) -> list[str]:
    """A line where the contract says IEEE quotients and the kernels, as compiled, have none; no line elsewhere.

    A kernel of which nothing is known, or that divides in no way, says nothing: a constant divisor is multiplied with.
    """
    terms = _exact(report.target.contract) if isinstance(report.target.contract, Contract) else []
    used = sorted({one_line(name) for fact in report.compiled for name in fact.divisions})
    if not terms or not used or any(".rn" in name for name in used):
        return []
    says = f"The contract says {' and '.join(terms)}, the IEEE quotient; the kernels as compiled have none, only"
    return [f"{says} {', '.join(used)}. Triton's / is divide_approx, an IEEE quotient is tl.div_rn."]


def _exact(contract: Contract) -> list[str]:
    """The terms of a contract that promise an IEEE quotient."""
    if contract.scale is None:
        return []
    derive = contract.scale.derive if isinstance(contract.scale, Computed) else None
    terms = {"apply": contract.apply, "derive": derive}
    return [f'{name}="divide"' for name, arithmetic in terms.items() if arithmetic == "divide"]
