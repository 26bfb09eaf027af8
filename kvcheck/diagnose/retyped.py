"""`reinterpreted-source`: rows of one 16-bit type read as if they were of the other."""

from __future__ import annotations

from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Floats
from kvcheck.diagnose.fault import Unpromised
from kvcheck.diagnose.match import Match, believed, match
from kvcheck.draw import dtypes
from kvcheck.schema import Tensor


class RetypedSource(Unpromised):
    """Predicts a store of the numbers that the other type's bits are."""

    slug = "reinterpreted-source"

    def explanations(self, facts: Facts) -> list[Explanation]:
        """One for each tensor whose wrong bytes are those of the other type's numbers."""
        return [made for tensor in TENSORS if (made := _explanation(facts, tensor)) is not None]


def _explanation(facts: Facts, tensor: Tensor) -> Explanation | None:
    placed = facts.emission.placement.get(tensor)
    if placed.dtype not in ("bf16", "fp16") or facts.all_right(tensor):
        return None
    other = _as_other(facts, tensor)
    found: Match = match(facts, tensor, other)
    if not believed(found):
        return None
    read = "fp16" if placed.dtype == "bf16" else "bf16"
    return Explanation(
        fault=RetypedSource.slug,
        tensor=tensor,
        codes=found.wrong_codes,
        scales=found.wrong_groups if found.wrong_scales else None,
        others=0,
        of_others=0,
        cost=1 + bool(found.against),
        says=f"{tensor.upper()} is read as {read}; its numbers are {placed.dtype}",
        evidence={"read_as": read, "declared": placed.dtype, "rows_explained": found.rows},
    )


def _as_other(facts: Facts, tensor: Tensor) -> Floats:
    """What the bits of a tensor's rows are as numbers of the other type: `[stored tokens, heads, dim]`."""
    values = facts.values(tensor, facts.stored_tokens)
    if facts.emission.placement.get(tensor).dtype == "bf16":
        return dtypes.to_float32(dtypes.from_float32(values, "bf16"), "fp16")
    return dtypes.to_float32(dtypes.from_float32(values, "fp16"), "bf16")
