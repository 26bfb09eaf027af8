"""`graph-stale`: a replay that stores the capture's rows, in its slots, with its scale, or nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
from judge.emulate import COMPUTED, Floats, Memory, amax_scale, e4m3, emulate

from kvcheck.contract import Computed, Contract, Form, Given
from kvcheck.diagnose import diagnose
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.graph_stale import ALL, OF_ROWS, ROWS, SCALE, SLOTS, GraphStale
from kvcheck.draw.image import decoy_inputs
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis, Emission, Tensor

GIVEN = Contract(scale=Given("tensor"), apply="divide")
OF_TOKEN = Contract(scale=Computed("token"))
BLOCKS = Contract(scale=Computed("block:16"))
PAGES = Form("pages", page=4)
FORMS = [Form(), PAGES, Form("heads_pages", page=4), Form("packed", page=4), Form("fused"),
         Form("pages", page=4, scales="inline", inline_pad=4)]  # fmt: skip
SIDES: tuple[Tensor, Tensor] = ("k", "v")


@dataclass(frozen=True)
class Replay:
    """A store of the first `tokens` tokens whose graph has `stale` of the capture, for `sides`."""

    case: Case
    contract: Contract
    stale: Collection[str]
    sides: str = "kv"
    tokens: int = 1 << 20

    def __call__(self, memory: Memory) -> None:
        """Store every token that has a slot."""
        drawn = decoy_inputs(memory.placement, self.case, self.contract)
        for tensor in SIDES:
            for token, slot in enumerate(memory.slots.tolist()):
                stale = self.stale if tensor in self.sides and token < self.tokens else ()
                if slot < 0 or ALL in stale:
                    continue
                other = drawn.k_float if tensor == "k" else drawn.v_float
                x = other if ROWS in stale else memory.read(tensor)
                where = int(drawn.slots[token]) if SLOTS in stale else slot
                self._store(memory, tensor, x[token], other[token], where, stale)

    def _store(
        self, memory: Memory, tensor: Tensor, row: Floats, other: Floats, slot: int, stale: Collection[str]
    ) -> None:
        x = row[None]
        rule = self.contract.scale
        if isinstance(rule, Given):
            drawn = decoy_inputs(memory.placement, self.case, self.contract)
            scale = drawn.k_scale if tensor == "k" else drawn.v_scale
            assert scale is not None
            memory.write(f"{tensor}_codes", slot, e4m3(x / (scale if SCALE in stale else scale / np.float32(32))))
            return
        assert rule is not None
        if rule.granularity == "token":
            kept = np.asarray(amax_scale(x.reshape(1, 1, -1)))
            spread = kept[:, :, None]
        elif rule.granularity == "token_head":
            kept = amax_scale(x)
            spread = kept[:, :, None]
        else:
            blocks = x.reshape(1, x.shape[1], -1, 16)
            kept = np.asarray(np.abs(blocks).max(axis=3) / np.float32(448), np.float32)
            spread = np.repeat(kept, 16, axis=2)
        if OF_ROWS in stale:
            kept = amax_scale(other[None])
            spread = kept[:, :, None]
        memory.write(f"{tensor}_codes", slot, e4m3(x / spread))
        memory.write(f"{tensor}_scales", slot, kept)


def replayed(
    stale: Collection[str], case: Case, contract: Contract = COMPUTED, form: Form | None = None, sides: str = "kv",
    tokens: int = 1 << 20,
) -> Emission:  # fmt: skip
    """What such a replay leaves; the call before the capture has stored."""
    case = msgspec.structs.replace(case, launch="graph")
    found = emulate(Replay(case, contract, stale, sides, tokens), case, contract, form)
    filled = tuple(each.name for each in found.placement.tensors if each.name.endswith(("_codes", "_scales")))
    return msgspec.structs.replace(found, called=filled)


def named(emission: Emission) -> tuple[Diagnosis, ...]:
    """The diagnoses of what the judge condemns."""
    verdict = judge(emission)
    assert verdict.outcome == "mismatch"
    return diagnose(emission, verdict)


def explains_all(found: tuple[Diagnosis, ...]) -> bool:
    """Whether each explains all that is wrong with its tensor, and nothing is left."""
    return all(each.explains == each.of for each in found) and "unexplained" not in found[-1].evidence


CASE = Case(tokens=5, heads=2, head_dim=32)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.kind}-{form.scales}")
@pytest.mark.parametrize("slots", ["ascending", "permuted", "duplicates", "negative_mixed"])
@pytest.mark.parametrize("stale", [(SLOTS,), (ROWS,), (SLOTS, ROWS), (ALL,)], ids=" and ".join)
def test_what_a_replay_has_of_the_capture_is_named(form: Form, slots: str, stale: tuple[str, ...]) -> None:
    """For both tensors and in every form: this fault alone, and all that is wrong by it."""
    emission = replayed(stale, msgspec.structs.replace(CASE, slots=slots), form=form)
    found = named(emission)
    assert [(each.fault, each.evidence["stale"]) for each in found] == [("graph-stale", ", ".join(stale))] * 2
    assert {each.tensor for each in found} == {"k", "v"}
    assert explains_all(found)
    if ALL not in stale:
        rows = Facts(emission, COMPUTED, judge(emission)).stored_tokens
        assert {each.evidence["rows_explained"] for each in found} == {len(rows) * CASE.heads}


@pytest.mark.parametrize("contract", [OF_TOKEN, BLOCKS], ids=["token", "block"])
@pytest.mark.parametrize("stale", [(SLOTS,), (ROWS,), (ALL,)], ids=" and ".join)
def test_scales_of_other_granularities_go_with_their_rows(contract: Contract, stale: tuple[str, ...]) -> None:
    """One of a token, or several of a head."""
    found = named(replayed(stale, CASE, contract))
    assert {(each.fault, each.evidence["stale"]) for each in found} == {("graph-stale", stale[0])}
    assert explains_all(found)


@pytest.mark.parametrize("stale", [(OF_ROWS,), (SLOTS, OF_ROWS)], ids=" and ".join)
def test_scales_of_the_captures_rows_may_be_in_use(stale: tuple[str, ...]) -> None:
    """A calibration that is kept: codes are those of the replay's rows by them."""
    found = named(replayed(stale, CASE))
    assert [(each.fault, each.evidence["stale"]) for each in found] == [("graph-stale", ", ".join(stale))] * 2
    assert explains_all(found)
    assert "with the scales of rows that stood there when the graph was captured" in found[0].says


@pytest.mark.parametrize(
    "stale", [(SCALE,), (SLOTS, SCALE), (ROWS, SCALE), (SLOTS, ROWS, SCALE), (ROWS,)], ids=" and ".join
)
def test_given_scales_of_the_capture_are_named_with_all_else(stale: tuple[str, ...]) -> None:
    """The least that gives the bytes, never more."""
    found = named(replayed(stale, CASE, GIVEN))
    assert [(each.fault, each.evidence["stale"]) for each in found] == [("graph-stale", ", ".join(stale))] * 2
    assert explains_all(found)
    assert ("scale 4, where 0.125 is due" in found[0].says) == (SCALE in stale)


def test_one_tensor_alone_is_named_alone() -> None:
    """And the sentence says which slots it took."""
    emission = replayed((SLOTS,), CASE, sides="v")
    (found,) = named(emission)
    due = decoy_inputs(emission.placement, emission.case, COMPUTED).slots
    assert (found.tensor, found.evidence["slots_used"]) == ("v", due.tolist())
    said = "V is stored in the slots that stood there when the graph was captured"
    assert found.says.startswith(f"{said} (token 0 in slot {due[0]}, where 3 is due); explains ")


def test_a_part_of_the_rows_may_be_stale() -> None:
    """Right ones beside them, however many, are counted against it; the sentence says whose are stale."""
    for stale in (ROWS, SLOTS):
        most, few = (named(replayed((stale,), CASE, tokens=tokens)) for tokens in (4, 1))
        assert {(each.fault, each.evidence["rows_against"]) for each in most} == {("graph-stale", 2)}
        assert {(each.fault, each.evidence["rows_against"]) for each in few} == {("graph-stale", 8)}
        assert explains_all(most)
        assert explains_all(few)
        assert ", of token 0, 1, 2, 3; explains" in most[0].says
        assert ", of token 0; explains" in few[0].says


def test_rows_that_are_all_alike_are_told_by_where_they_stand() -> None:
    """Zeros in the slots of the capture, where nothing is due; zeros in their own slots would tell nothing."""
    found = named(replayed((SLOTS,), msgspec.structs.replace(CASE, k_values="all_zero", v_values="all_zero"), GIVEN))
    assert {(each.fault, each.evidence["stale"]) for each in found} == {("graph-stale", SLOTS)}


def test_few_bytes_prove_nothing() -> None:
    """Four codes of one row come by chance."""
    found = named(replayed((ROWS,), Case(tokens=1, heads=1, head_dim=4), GIVEN))
    assert "graph-stale" not in {each.fault for each in found}


def test_a_few_rows_of_many_wrong_ones_are_not_enough() -> None:
    """One row of the capture among five that are all wrong says little of the others."""
    case = msgspec.structs.replace(CASE, launch="graph")

    def kernel(memory: Memory) -> None:
        Replay(case, GIVEN, (ROWS,))(memory)
        for slot in memory.slots[1:].tolist():
            for tensor in SIDES:
                memory.write(f"{tensor}_codes", slot, memory.row(f"{tensor}_codes", slot) ^ np.uint8(0x15))

    emission = emulate(kernel, case, GIVEN)
    assert "graph-stale" not in {each.fault for each in diagnose(emission, judge(emission))}


def test_only_a_replay_is_stale() -> None:
    """The same bytes of a launch that was called have other causes, and show nothing of it."""
    emission = replayed((SLOTS,), CASE)
    called = msgspec.structs.replace(emission, case=msgspec.structs.replace(emission.case, launch="eager"))
    verdict = judge(called)
    assert "graph-stale" not in {each.fault for each in diagnose(called, verdict)}


def test_a_store_that_no_call_has_made_is_lost_and_not_stale() -> None:
    """Nor one of which a replay makes a part, or whose call left another tensor alone."""
    emission = replayed((ALL,), CASE)
    for called in ((), None, ("k_codes", "v_codes")):
        found = named(msgspec.structs.replace(emission, called=called))
        assert {each.fault for each in found} == {"token-lost"}
    assert {each.fault for each in named(replayed((ALL,), CASE, tokens=4))} == {"token-lost"}


def test_a_right_replay_is_not_stale() -> None:
    """There is nothing to name."""
    emission = replayed((), CASE)
    facts = Facts(emission, COMPUTED, judge(emission))
    assert GraphStale().explanations(facts) == []


@pytest.mark.parametrize(
    ("case", "contract", "shown"),
    [
        (Case(launch="graph", tokens=2, head_dim=16), COMPUTED, {SLOTS: True, ROWS: True, ALL: True}),
        (Case(launch="graph", tokens=2, head_dim=16), GIVEN, {SLOTS: True, ROWS: True, SCALE: True, ALL: True}),
        (Case(launch="graph", tokens=0, head_dim=16), COMPUTED, {SLOTS: False, ROWS: False, ALL: False}),
        (Case(launch="graph", tokens=2, head_dim=16, k_values="all_zero", v_values="all_zero"), GIVEN,
         {SLOTS: True, ROWS: True, SCALE: False, ALL: True}),
        (Case(launch="graph", tokens=2, head_dim=16), Contract(scale=Given("tensor", as_float=True), apply="divide"),
         {SLOTS: True, ROWS: True, ALL: True}),
        (Case(tokens=2, head_dim=16), COMPUTED, {SLOTS: False, ROWS: False, ALL: False}),
        (Case(tokens=2, head_dim=16), GIVEN, {SLOTS: False, ROWS: False, SCALE: False, ALL: False}),
    ],
)  # fmt: skip
def test_what_a_case_would_show(case: Case, contract: Contract, shown: dict[str, bool]) -> None:
    """In a replay of any token, what the bytes would tell; a scale that is a float is a graph's to keep."""
    emission = emulate(lambda _: None, case, contract)
    facts = Facts(emission, contract, judge(emission))
    assert GraphStale().shown(facts.standing()) == shown
