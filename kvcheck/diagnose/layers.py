"""`layer-remap`: rows that stand in another layer's cache, where the caches of several lie one behind the other."""

from __future__ import annotations

from kvcheck.diagnose.destination import explanation
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.misplaced import misplaced
from kvcheck.diagnose.strides import LAYER_REMAP


class LayerRemap:
    """Another layer's number, or none: the codes, the scales or both go where another layer's belong."""

    slug = LAYER_REMAP
    forms = ("",)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether a kernel that stores into the first layer's cache would miss the one that it was given."""
        return {"": facts.emission.case.layer > 0 and len(facts.slots) > 0}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """At most one for the codes and one for the scales of each tensor."""
        return [explanation(part, held) for part, held in misplaced(facts) if held.destination.fault == self.slug]
