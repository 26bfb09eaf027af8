"""What compile facts say, a line for each kernel and arch, and the exit status that they earn. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from kvcheck.schema import CompileFact

PASSED, FAILED, INCONCLUSIVE, NOTHING_COMPILED = 0, 1, 3, 4


def exit_code(facts: Sequence[CompileFact]) -> int:
    """0 every kernel compiles for every arch; 1 one does not; 3 of an arch nothing is known; 4 of none is."""
    outcomes = {fact.outcome for fact in facts}
    if "failed" in outcomes:
        return FAILED
    if "compiled" not in outcomes:
        return NOTHING_COMPILED
    return INCONCLUSIVE if "none" in outcomes else PASSED


def lines(facts: Sequence[CompileFact]) -> list[str]:
    """A line for each fact, in columns: arch, kernel, what became of it."""
    archs = max((len(fact.arch) for fact in facts), default=0)
    kernels = max((len(fact.kernel) for fact in facts), default=0)
    return [f"{fact.arch:{archs}}  {fact.kernel:{kernels}}  {said(fact)}".rstrip() for fact in facts]


def said(fact: CompileFact) -> str:
    """What became of one kernel: its instructions that decide codes, or why there are none."""
    if fact.outcome == "failed":
        return f"compile-failure: {fact.error}"
    if fact.outcome == "none":
        return f"nothing is known: {fact.error}"
    fusion = {True: "fuses multiply and add", False: "keeps multiply and add apart", None: "fusion unknown"}
    return "; ".join(
        (
            f"casts: {_listed(fact.casts) or 'none'}",
            f"divides: {_listed(fact.divisions) or 'never'}",
            fusion[fact.fp_fusion],
        )
    )


def _listed(instructions: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in instructions.items())
