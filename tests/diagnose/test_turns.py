"""Programs that take several rows, and have something of one of them at another."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from judge.emulate import COMPUTED, Memory, amax_scale, e4m3, emulate

from kvcheck.diagnose import diagnose
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.scale_uses import of_the_row_before
from kvcheck.judge import judge
from kvcheck.schema import Case

from .test_scale_forms import followed, named
from .test_scales import Floats, Rule, kernel

#: Heads of the cases that forms are met in.
HEADS = Case().heads


def in_turns(programs: int, scale: Floats) -> list[Floats]:
    """The scales of each program's rows, one after the other."""
    flat = scale.reshape(-1)
    return [flat[turn::programs] for turn in range(programs)]


def woven(programs: int, turns: list[Floats], like: Floats) -> Floats:
    """Scales of programs, back at their rows."""
    flat = np.empty(like.size, np.float32)
    for turn, each in enumerate(turns):
        flat[turn::programs] = each
    return flat.reshape(like.shape)


def running(programs: int) -> Rule:
    """Programs that take rows in turns, each with an amax that it never resets."""

    def rule(x: Floats) -> tuple[Floats, Floats]:
        scale = amax_scale(x)
        turns = [np.maximum.accumulate(each) for each in in_turns(programs, scale)]
        return followed(woven(programs, turns, scale), x)

    return rule


def used_late(programs: int) -> Rule:
    """Programs that take rows in turns, each row with the scale that its program used for the row before."""

    def rule(x: Floats) -> tuple[Floats, Floats]:
        scale = amax_scale(x)
        turns = [np.concatenate((each[:1], each[:-1])) for each in in_turns(programs, scale)]
        return scale, x / woven(programs, turns, scale)[:, :, None]

    return rule


def pairs(x: Floats) -> tuple[Floats, Floats]:
    """The amax of each row and of the token before; the first has its own."""
    scale = amax_scale(x)
    return followed(np.maximum(scale, np.concatenate((scale[:1], scale[:-1]))), x)


def first_of_four(x: Floats) -> tuple[Floats, Floats]:
    """Tokens that a program takes together, all with the first one's scale in use."""
    scale = amax_scale(x)
    return scale, np.asarray(x / np.repeat(scale[::4], 4, axis=0)[: len(x), :, None], np.float32)


@pytest.mark.parametrize(
    ("rule", "fault", "words"),
    [
        (running(1), "amax-population", "each row and those before it"),
        (running(4), "amax-population", "each row and those before it of its program, one of 4 in turns"),
        (used_late(1), "scale-address", "the scale of the row before"),
        (first_of_four, "scale-address", "those of the scales of the first of every 4 tokens"),
        (pairs, "amax-population", "each row and that of the token before"),
        (
            running(2 * HEADS),
            "amax-population",
            "those before it of its head and program, one of 2 in turns",
        ),
        (
            used_late(2 * HEADS),
            "scale-address",
            "the row before of its head and program, one of 2 in turns",
        ),
        (used_late(2), "scale-address", "the scale of the row before of its program, one of 2 in turns"),
    ],
)
def test_a_form_is_named_with_what_it_is(rule: Rule, fault: str, words: str) -> None:
    """For both tensors, with all their wrong bytes, and nothing beside it."""
    found = named(rule)
    assert sorted((each.fault, each.tensor) for each in found) == [(fault, "k"), (fault, "v")]
    assert all(words in each.says and each.explains == each.of > 0 for each in found), found[0].says


def test_a_row_that_has_none_before_it_tells_nothing() -> None:
    """Of one token each head is its program's first: codes of any other scale would be those of the row before."""
    emission = emulate(kernel(garbled, "v"), Case(tokens=1, heads=3, head_dim=64, dtype="fp32"))
    facts = Facts(emission, COMPUTED, judge(emission))
    assert of_the_row_before(facts, "v", facts.emitted("v")) is None


def garbled(x: Floats) -> tuple[Floats, Floats]:
    """Codes by scales of nobody."""
    scale = amax_scale(x)
    return scale, np.asarray(x / (scale * np.float32(1.37))[:, :, None], np.float32)


@pytest.mark.parametrize("slots", ["negative_mixed", "permuted"])
def test_where_the_first_of_some_tokens_is_not_stored_nothing_is_said_of_it(slots: str) -> None:
    """Two tokens a program, with the first one's scale in use, whether that is stored or has a negative slot."""

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x)
            codes = e4m3(np.asarray(x / np.repeat(scale[::2], 2, axis=0)[: len(x), :, None], np.float32))
            for token, slot in enumerate(memory.slots.tolist()):
                if slot >= 0:
                    memory.write(f"{tensor}_codes", slot, codes[token])
                    memory.write(f"{tensor}_scales", slot, scale[token])

    emission = emulate(run, msgspec.convert({"tokens": 5, "heads": 2, "dtype": "fp32", "slots": slots}, Case))
    stored = set(Facts(emission, COMPUTED, judge(emission)).tokens.tolist())
    said = ["the first of every 2 tokens" in each.says for each in diagnose(emission, judge(emission))]
    assert ({0, 2, 4} <= stored) == (slots == "permuted")
    assert any(said) == (slots == "permuted")
