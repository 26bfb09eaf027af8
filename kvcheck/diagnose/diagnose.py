"""Which faults a verdict's findings are, and which a case could have shown at all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvcheck.contract import LoadContract
from kvcheck.diagnose.arbitrate import arbitrate
from kvcheck.diagnose.elsewhere import elsewhere
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.faults import FAULTS, NUMERIC
from kvcheck.diagnose.moves import follows_cache, follows_chance
from kvcheck.schema import Diagnosis, Emission, Verdict

#: The outcomes of verdicts on bytes: those of wrong ones, and all.
FAILED = frozenset({"mismatch", "violation"})
JUDGED = FAILED | {"pass"}

#: For each fault, by its slug, its forms, and whether they would have been shown.
Shown = Mapping[str, Mapping[str, bool]]


def examine(emission: Emission, verdict: Verdict) -> tuple[tuple[Diagnosis, ...], Shown]:
    """`diagnose`, of a case that failed, and `shown`: what both need to know of the case is found out once."""
    if isinstance(emission.contract, LoadContract):
        return (), {}
    facts = Facts(emission, emission.contract, verdict)
    return _named(facts) if verdict.outcome in FAILED else (), _shown(facts)


def diagnose(emission: Emission, verdict: Verdict) -> tuple[Diagnosis, ...]:
    """The faults that explain an emission's condemned bytes, the one that explains most first.

    Empty where no byte is condemned, where the judge could not decide, and where no fault gives the bytes.
    """
    return () if isinstance(emission.contract, LoadContract) else _named(Facts(emission, emission.contract, verdict))


def shown(emission: Emission, verdict: Verdict) -> Shown:
    """For each fault, its usual forms that the contract admits, and whether this case would have shown them.

    Nothing where the judge could not judge. A form is shown where a kernel that has it fails the case: what the
    emission's own kernel stored has no part in it.
    """
    return {} if isinstance(emission.contract, LoadContract) else _shown(Facts(emission, emission.contract, verdict))


def foreseen(scene: Emission) -> Shown:
    """`shown`, of a case that left no launch to judge: what it was placed for and where is all that it hangs on."""
    contract = scene.contract
    if isinstance(contract, LoadContract):
        return {}
    return _foreseen(Facts(scene, contract, Verdict("crash", "")))


def observable(emission: Emission, verdict: Verdict) -> tuple[str, ...]:
    """The slugs of the faults that a pass of this case rules out."""
    return ruled_out(shown(emission, verdict))


def ruled_out(found: Shown) -> tuple[str, ...]:
    """The slugs of the faults of which every form is `shown`: where one would have hidden, a pass says nothing."""
    return tuple(slug for slug, forms in found.items() if forms and all(forms.values()))


def _named(facts: Facts) -> tuple[Diagnosis, ...]:
    if not _condemned(facts.verdict):
        return ()
    # A kernel may have left any numbers, infinities and NaN among them, and forms calculate with what they find.
    with np.errstate(all="ignore"):
        found = [made for fault in FAULTS for made in fault.explanations(facts)]
        # What rows alone make would be the same whatever stood in the cache, and in every launch.
        found = [
            made for made in found if not (made.of_rows and (follows_cache(facts, made) or follows_chance(facts, made)))
        ]
        return arbitrate(facts, [*found, *elsewhere(facts, found, NUMERIC)])


def _shown(facts: Facts) -> Shown:
    if facts.verdict.outcome not in JUDGED:
        return {}
    return _foreseen(facts)


def _foreseen(facts: Facts) -> Shown:
    standing = facts.standing()
    return {fault.slug: fault.shown(standing) for fault in FAULTS}


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
