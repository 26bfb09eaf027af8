"""Faults of the encoder: the right scaled values, made into codes by another rule than the contract's.

Each rule predicts every code. It is believed where it gives all emitted codes of the rows whose scale is right: a wrong
code is then reproduced, and no right one is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvcheck.diagnose.code_fault import FEW, most, resting_on, seen_codes
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Bytes, Facts, Floats, Stored
from kvcheck.diagnose.prospect import fails
from kvcheck.formats import bits
from kvcheck.formats.apply import contract_format, contract_policy
from kvcheck.formats.spec import Policy, Rounding, policy_error
from kvcheck.schema import Tensor


@dataclass(frozen=True)
class Rule:
    """One way to encode, and how a sentence says it: "codes are ..."."""

    rounding: Rounding
    words: str


class RoundingFault:
    """Predicts the codes of other roundings than the contract's, the first of equals being the simplest."""

    def __init__(self, slug: str, rules: tuple[Rule, ...]) -> None:
        """`slug` names the fault; `rules` are the roundings that are it."""
        self.slug = slug
        self._rules = rules

    @property
    def forms(self) -> tuple[str, ...]:
        """Each of the roundings, for K and V alike."""
        return tuple(rule.words for rule in self._rules)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether a rounding gives another code than the contract allows; only of those that it does not ask for."""
        others = self._others(facts)
        return {rule.words: any(_shows(facts, tensor, rule) for tensor in TENSORS) for rule in others}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """The first rounding, for each tensor with wrong codes, that gives all of its codes.

        None where equal launches leave other codes: a rule would give the same ones.
        """
        if facts.verdict.determinism.values_drift:
            return []
        return [made for tensor in TENSORS if (made := self._explanation(facts, tensor)) is not None]

    def _explanation(self, facts: Facts, tensor: Tensor) -> Explanation | None:
        found = facts.right(tensor)
        for seen in seen_codes(facts, tensor):
            for rule in self._others(facts):
                same = _encode(facts, seen.scaled, rule) == seen.emitted
                if not most(seen, seen.wrong & same):
                    continue
                for other in seen.off:
                    # Under a declared error a code may be the neighbour of the one predicted.
                    same = same | (_encode(facts, other.scaled, rule) == seen.emitted)
                if same[seen.known].all():
                    return Explanation(
                        fault=self.slug,
                        tensor=tensor,
                        codes=seen.wrong & ~found.codes,
                        scales=None,
                        others=0,
                        of_others=0,
                        # Few may lie beside ties by chance: then a rule of rounding is one account of several.
                        cost=1 if seen.wrong.sum() >= FEW else 2,
                        says=f"{tensor.upper()}'s codes are {rule.words}{resting_on(seen.wrong)}",
                        evidence={"rounding": rule.rounding, "scaled_value": float(seen.scaled[seen.wrong][0])},
                        of_rows=True,
                    )
        return None

    def _others(self, facts: Facts) -> list[Rule]:
        return [rule for rule in self._rules if rule.rounding != facts.contract.rounding]


def _shows(facts: Facts, tensor: Tensor, rule: Rule) -> bool:
    """Whether a kernel that encodes by a rule leaves a code that a right one may not."""
    own = facts.own(tensor)
    right = own.stored
    scaled, _ = own.scaled(right)
    return fails(facts, tensor, Stored(_encode(facts, scaled, rule), right.scale))


def _encode(facts: Facts, scaled: Floats, rule: Rule) -> Bytes:
    """The codes of scaled values by a rule; by the contract's own where its format has no such rounding."""
    policy, number_format = contract_policy(facts.contract), contract_format(facts.contract)
    tried = Policy(rule.rounding, policy.overflow, policy.nan, policy.negative_zero)
    return bits.encode_by(scaled, number_format, tried if policy_error(number_format, tried) is None else policy)


DOUBLE_ROUNDING_FP16 = RoundingFault(
    "double-rounding-fp16",
    (
        Rule("via_fp16_rtz", "rounded twice, first toward zero to fp16"),
        Rule("via_fp16_rne", "rounded twice, first to nearest in fp16"),
    ),
)
DOUBLE_ROUNDING_BF16 = RoundingFault(
    "double-rounding-bf16", (Rule("via_bf16", "rounded twice, first to nearest in bf16"),)
)
ROUNDING_MODE = RoundingFault(
    "rounding-mode",
    (
        Rule("rne", "rounded to nearest, ties to even"),
        Rule("half_away", "rounded to nearest with ties away from zero"),
        Rule("rtz", "rounded toward zero"),
    ),
)
