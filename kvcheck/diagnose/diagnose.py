"""Which faults a verdict's findings are, and which a case could have shown at all."""

from __future__ import annotations

from kvcheck.contract import LoadContract
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.faults import FAULTS
from kvcheck.schema import Diagnosis, Emission, Verdict


def diagnose(emission: Emission, verdict: Verdict) -> tuple[Diagnosis, ...]:
    """The faults that explain an emission's wrong codes and scales, the one that explains most first.

    Empty where nothing is wrong in launch 1, or where the judge could not decide.
    """
    if not (verdict.codes.wrong or verdict.scales.wrong) or isinstance(emission.contract, LoadContract):
        return ()
    facts = Facts(emission, emission.contract)
    found = [diagnosis for fault in FAULTS for diagnosis in fault.diagnoses(facts)]
    return tuple(sorted(found, key=lambda diagnosis: -diagnosis.explains))


def observable(emission: Emission, verdict: Verdict) -> tuple[str, ...]:
    """The slugs of the faults that this case would have shown; none where the judge compared nothing."""
    if not verdict.codes.compared or isinstance(emission.contract, LoadContract):
        return ()
    facts = Facts(emission, emission.contract)
    return tuple(fault.slug for fault in FAULTS if fault.observable(facts))
