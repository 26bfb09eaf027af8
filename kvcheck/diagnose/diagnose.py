"""Which faults a verdict's findings are, and which a case could have shown at all."""

from __future__ import annotations

from kvcheck.contract import LoadContract
from kvcheck.diagnose.arbitrate import arbitrate
from kvcheck.diagnose.elsewhere import elsewhere
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.faults import FAULTS, NUMERIC
from kvcheck.diagnose.follows import follows_cache
from kvcheck.schema import Diagnosis, Emission, Verdict


def diagnose(emission: Emission, verdict: Verdict) -> tuple[Diagnosis, ...]:
    """The faults that explain an emission's condemned bytes, the one that explains most first.

    Empty where no byte is condemned, where the judge could not decide, and where no fault gives the bytes.
    """
    if isinstance(emission.contract, LoadContract) or not _condemned(verdict):
        return ()
    facts = Facts(emission, emission.contract, verdict)
    found = [made for fault in FAULTS for made in fault.explanations(facts)]
    found = [made for made in found if not (made.of_rows and follows_cache(facts, made))]
    return arbitrate(facts, [*found, *elsewhere(facts, found, NUMERIC)])


def observable(emission: Emission, verdict: Verdict) -> tuple[str, ...]:
    """The slugs of the faults that this case would have shown; none where the judge compared nothing."""
    if not verdict.codes.compared or isinstance(emission.contract, LoadContract):
        return ()
    facts = Facts(emission, emission.contract, verdict)
    return tuple(dict.fromkeys(fault.slug for fault in FAULTS if fault.observable(facts)))


def _condemned(verdict: Verdict) -> bool:
    """Whether any channel that judges bytes found one that may not be as it is."""
    codes, scales, drift = verdict.codes, verdict.scales, verdict.determinism
    return any(
        (
            codes.wrong or codes.wrong_any_launch,
            scales.wrong or scales.wrong_any_launch,
            verdict.writes.lost or verdict.writes.stray,
            verdict.independence.differs,
            drift.positions_drift or drift.values_drift,
            verdict.inputs.changed,
        )
    )
