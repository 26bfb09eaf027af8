"""An amax over a head and what lies behind it in memory, as a kernel without a mask for its last lanes has it."""

from __future__ import annotations

import msgspec

from kvcheck.diagnose import received
from kvcheck.diagnose.facts import Facts, Stored
from kvcheck.diagnose.groups import kept_by
from kvcheck.diagnose.scale_fault import Made
from kvcheck.diagnose.scale_rules import by_rule, computed
from kvcheck.schema import Tensor


def with_what_follows(facts: Facts, tensor: Tensor, emitted: Stored) -> Made | None:
    """Each head and what lies behind it in memory: one element, or the lanes up to a power of two."""
    rule, own = computed(facts, emitted), received.source(facts.emission, tensor)
    right = facts.right(tensor).scales
    if rule is None or own is None or rule.granularity != "token_head" or emitted.scale is None or right is None:
        return None
    dim = own.dims[2]
    for lanes in dict.fromkeys((dim + 1, 1 << (dim - 1).bit_length(), -(-dim // 16) * 16, -(-dim // 32) * 32, 2 * dim)):
        if lanes == dim:
            continue
        values = facts.read(msgspec.structs.replace(own, dims=(*own.dims[:2], lanes)))
        kept = kept_by(rule, values, emitted, emitted.scale, 0)
        if kept is not None and (kept & ~right).any() and not (right & ~kept).any():
            count = lanes - dim
            words = f"{count} element{'s' if count > 1 else ''} more than each head has, what lies behind it"
            says = f"scales are those of the largest magnitude of {words}"
            return by_rule(rule, values, says, elements_beyond=count)
    return None
