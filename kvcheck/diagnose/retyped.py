"""`reinterpreted-source`: rows of one type read as if they were of another."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Floats, Mask
from kvcheck.diagnose.fault import Unpromised
from kvcheck.diagnose.match import Match, believed, match
from kvcheck.draw import dtypes
from kvcheck.schema import Placed, Tensor

NARROW = ("bf16", "fp16")


class RetypedSource(Unpromised):
    """Predicts a store of the numbers that the other type's bits are."""

    slug = "reinterpreted-source"

    def explanations(self, facts: Facts) -> list[Explanation]:
        """One for each tensor whose wrong bytes are those of another type's numbers."""
        return [made for tensor in TENSORS if (made := _explanation(facts, tensor)) is not None]


def _explanation(facts: Facts, tensor: Tensor) -> Explanation | None:
    """The first type, and the first way to step through it, that gives the bytes."""
    if facts.all_right(tensor):
        return None
    placed = facts.emission.placement.get(tensor)
    for read, where, values, known in _others(facts, placed):
        found: Match = match(facts, tensor, values, known)
        if believed(found):
            return Explanation(
                fault=RetypedSource.slug,
                tensor=tensor,
                codes=found.wrong_codes,
                scales=found.wrong_groups if found.wrong_scales else None,
                others=0,
                of_others=0,
                cost=1 + bool(found.against),
                says=f"{tensor.upper()} is read as {read}{where}; its numbers are {placed.dtype}",
                evidence={"read_as": read, "declared": placed.dtype, "rows_explained": found.rows},
                unknown=found.unknown,
            )
    return None


def _others(facts: Facts, placed: Placed) -> Iterator[tuple[str, str, Floats, Mask | None]]:
    """What a kernel may take rows to be: the type, how it steps, rows `[stored tokens, heads, dim]`, what is known."""
    tokens = facts.stored_tokens
    if placed.dtype in NARROW:
        tensor: Tensor = "k" if placed.name == "k" else "v"
        read = "fp16" if placed.dtype == "bf16" else "bf16"
        values = facts.values(tensor, tokens)
        bits = dtypes.from_float32(values, "bf16" if placed.dtype == "bf16" else "fp16")
        yield read, "", dtypes.to_float32(bits, "fp16" if read == "fp16" else "bf16"), None
        wide = replace(placed, dtype="fp32")
        yield "fp32", ", strides counted in its elements", facts.read(wide, tokens), facts.known(wide, tokens)
        return
    token, head, inner = placed.strides
    for read in NARROW:
        # A row's address is right, and what is counted from there are halves; or all strides are.
        for strides, where in (((2 * token, 2 * head, inner), " within each head"), (placed.strides, "")):
            half = replace(placed, dtype="bf16" if read == "bf16" else "fp16", strides=strides)
            words = f"{where}, strides counted in its elements"
            yield read, words, facts.read(half, tokens), facts.known(half, tokens)
