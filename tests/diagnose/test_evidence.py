"""What a diagnosis must rest on: bytes that went wrong by chance have no name, and few of them no certain one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from judge.emulate import Bytes, Floats, Kernel, Memory, amax_scale, e4m3, emulate, given_store, store

from kvcheck.contract import Computed, Contract, Form, Given
from kvcheck.diagnose import diagnose
from kvcheck.formats import bits
from kvcheck.judge import judge
from kvcheck.schema import Case, Diagnosis

Random: TypeAlias = np.random.Generator
#: Changes some codes `[heads * dim]` of one token's V in place.
Corrupt: TypeAlias = Callable[[Bytes, Random], None]

CASES = (
    Case(tokens=3, heads=2, head_dim=64),
    Case(tokens=8, heads=2, head_dim=64, dtype="fp32", v_values="normal*0.01"),
    Case(tokens=3, heads=2, head_dim=64, dtype="fp32", v_values="midpoints"),
    Case(tokens=3, heads=2, head_dim=64, v_values="traps"),
    Case(tokens=8, heads=2, head_dim=64, dtype="fp16", v_values="zero_rows"),
    Case(tokens=2, heads=2, head_dim=64, v_values="offset"),
    Case(tokens=3, heads=2, head_dim=64, dtype="fp32", v_values="subnormal_codes"),
    Case(tokens=1, heads=1, head_dim=64, dtype="fp16", v_values="normal*1e4"),
    Case(tokens=8, heads=2, head_dim=64, v_values="outlier", v_view="expanded"),
    Case(tokens=4, heads=2, head_dim=64, v_values="constant"),
)


def one_bit(row: Bytes, random: Random) -> None:
    """The lowest bit of one code."""
    row[random.integers(len(row))] ^= 1


def one_code(row: Bytes, random: Random) -> None:
    """Any other code for one."""
    row[random.integers(len(row))] ^= np.uint8(random.integers(1, 256))


def eight_codes(row: Bytes, random: Random) -> None:
    """Any code for eight."""
    row[random.integers(0, len(row), 8)] = random.integers(0, 256, 8)


def every_code(row: Bytes, random: Random) -> None:
    """Any code for each."""
    row[:] = random.integers(0, 256, len(row))


def no_code(row: Bytes, random: Random) -> None:  # noqa: ARG001 - one signature for all
    """Zeros."""
    row[:] = 0


def corrupted(corrupt: Corrupt, seed: int, *, every: bool) -> Kernel:
    """A right store whose V goes wrong by chance, in one token or in `every`; alike in all launches."""

    def run(memory: Memory) -> None:
        store(memory)
        random = np.random.default_rng(seed)
        slots = memory.slots if every else memory.slots[random.integers(len(memory.slots))][None]
        for slot in slots.tolist():
            row = memory.row("v_codes", slot).copy()
            corrupt(row, random)
            memory.write("v_codes", slot, row)

    return run


def found(run: Kernel, case: Case, launches: int = 3) -> tuple[Diagnosis, ...]:
    """Emulate, judge, diagnose."""
    emission = emulate(run, case, launches=launches)
    return diagnose(emission, judge(emission))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.v_values}-{case.tokens}")
@pytest.mark.parametrize("corrupt", [one_bit, one_code, eight_codes, every_code, no_code])
def test_codes_that_go_wrong_by_chance_have_no_name(corrupt: Corrupt, case: Case) -> None:
    """No fault reproduces them: neither in one token nor, a few in each, in all."""
    for seed in range(2):
        for every in (False, True):
            if every and corrupt is no_code:
                continue  # a tensor of zeros has a cause, whatever it is
            assert found(corrupted(corrupt, seed, every=every), case) == ()


def with_scales(change: Callable[[Floats, Random], Floats], seed: int) -> Kernel:
    """A right store whose kept V scales `[heads]` are changed."""

    def run(memory: Memory) -> None:
        store(memory)
        random = np.random.default_rng(seed)
        for slot in memory.slots.tolist():
            scale = memory.row("v_scales", slot).view(np.float32)
            memory.write("v_scales", slot, change(scale, random).astype(np.float32))

    return run


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.v_values}-{case.tokens}")
def test_scales_that_go_wrong_by_chance_have_no_name(case: Case) -> None:
    """Factors from a half to two: no rule makes such scales."""
    for seed in range(2):
        noise = with_scales(lambda scale, random: scale * random.uniform(0.5, 2, scale.shape).astype(np.float32), seed)
        assert found(noise, case) == ()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.v_values}-{case.tokens}")
def test_scales_an_ulp_off_are_of_another_arithmetic_if_of_anything(case: Case) -> None:
    """Neither a factor of 1, nor the reciprocal of a scale that is 1, nor a constant below the last bit."""

    def off(scale: Floats, random: Random) -> Floats:
        return np.asarray(np.nextafter(scale, np.float32(random.choice([-np.inf, np.inf]))), np.float32)

    assert {each.fault for each in found(with_scales(off, 3), case)} <= {"approximate-division"}


def carried(limit: int) -> Kernel:
    """A store that loses the carry into the next exponent, in the first few codes alone that show it."""

    def run(memory: Memory) -> None:
        store(memory)
        x = memory.read("v")
        scaled = x / amax_scale(x)[:, :, None]
        low, right = bits.encode(scaled, rounding="rtz"), e4m3(scaled)
        lost = np.where((low & 0x7F) >= 8, (low & 0xF8) | (right & 7), right)
        shows = np.cumsum((lost != right).ravel()).reshape(right.shape)
        codes = np.where(shows <= limit, lost, right).astype(np.uint8)
        for token, slot in enumerate(memory.slots):
            memory.write("v_codes", int(slot), codes[token])

    return run


@pytest.mark.parametrize(("tokens", "alone"), [(1, True), (16, False)])
def test_a_fault_that_few_codes_show_is_named_by_them_alone(tokens: int, *, alone: bool) -> None:
    """A sentence says how few they are; of many it says nothing."""
    case = Case(tokens=tokens, heads=1, head_dim=64, dtype="fp32", seed=1)
    (made,) = found(carried(1 << 30), case)
    assert (made.fault, made.explains == made.of, made.of < 4) == ("lost-carry", True, alone)
    assert (f"by {made.of} wrong code" in made.says) == alone


def test_a_code_that_a_fault_gives_is_not_its_where_others_are_right() -> None:
    """One lost carry of many that were due, beside right rows that should have lost one: chance gives as much."""
    assert found(carried(1), Case(tokens=16, heads=1, head_dim=64, dtype="fp32")) == ()


@pytest.mark.parametrize("heads", [1, 3])
def test_one_wrong_scale_for_all_is_a_least_value_only_where_unlike_ones_are_due(heads: int) -> None:
    """Rows that are all one have one scale, right or wrong: any number would be their least value."""

    def run(memory: Memory) -> None:
        store(memory)
        x = memory.read("v")
        scale = np.full(x.shape[:2], np.float32(31.91305) / np.float32(448), np.float32)
        for token, slot in enumerate(memory.slots):
            memory.write("v_codes", int(slot), e4m3(x[token] / scale[token][:, None]))
            memory.write("v_scales", int(slot), scale[token])

    case = Case(tokens=4, heads=heads, dtype="fp32", v_view="expanded")
    assert {each.fault for each in found(run, case)} == (set() if heads == 1 else {"zero-row"})


def test_saturated_codes_are_told_by_the_limit_not_by_one_of_many_scales() -> None:
    """All codes are the largest: that a scale was used twice gives them too, and is said beside it."""
    contract = Contract(scale=Given("tensor"))

    def run(memory: Memory) -> None:
        for tensor, scale in (("k", 0.125), ("v", 0.0625)):
            scaled = memory.read(tensor) / np.float32(scale)
            codes = np.where(np.abs(scaled) >= 256, e4m3(np.sign(scaled) * 448), e4m3(scaled))
            for token, slot in enumerate(memory.slots):
                memory.write(f"{tensor}_codes", int(slot), codes[token])

    case = Case(dtype="fp32", v_values="grid*18", k_values="zero_rows")
    emission = emulate(run, case, contract, Form(scales="none"))
    made = diagnose(emission, judge(emission))
    assert made[0].fault == "early-saturation"


@pytest.mark.parametrize("tokens", [8, 300])
def test_rows_one_slot_on_are_written_there_however_many_they_are(tokens: int) -> None:
    """Each slot holds the row before: that rows were read so would leave the first as it is, and none behind the last.

    Scales of neighbours may be equal: the account holds for them as well.
    """

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            scale = amax_scale(x)
            codes = e4m3(x / scale[:, :, None])
            for token, slot in enumerate(memory.slots):
                memory.write(f"{tensor}_codes", int(slot) + 1, codes[token])
                memory.write(f"{tensor}_scales", int(slot) + 1, scale[token])

    made = found(run, Case(tokens=tokens, heads=2, head_dim=64))
    assert {(each.fault, each.tensor, each.explains == each.of) for each in made} == {
        (fault, tensor, True) for fault in ("cache-layout", "scale-address") for tensor in "kv"
    }
    assert all("each +1 from its own" in each.says for each in made)
    assert made[0].fault == "cache-layout"


def test_zeros_of_k_are_not_told_from_zeros_of_whatever_origin() -> None:
    """K's rows are zeros, and V's were made so: nothing says that K's codes stand where V's belong."""

    def run(memory: Memory) -> None:
        store(memory)
        for slot in memory.slots.tolist():
            memory.write("v_codes", slot, np.zeros((2, 64), np.uint8))
            memory.write("v_scales", slot, memory.row("k_scales", slot).view(np.float32))

    made = found(run, Case(tokens=3, heads=2, head_dim=64, k_values="all_zero"))
    assert not {"cache-layout", "scale-address"} & {each.fault for each in made}


def test_bytes_that_are_lost_by_the_way_are_no_lost_tokens() -> None:
    """Three codes of each head keep what stood there, and all others are wrong: of many that is the least."""

    def run(memory: Memory) -> None:
        kept = {int(slot): memory.row("v_codes", int(slot)).copy() for slot in memory.slots}
        store(memory)
        random = np.random.default_rng(2)
        for slot, before in kept.items():
            row = random.integers(0, 256, (2, 64)).astype(np.uint8)
            row[:, :3] = before.reshape(2, 64)[:, :3]
            memory.write("v_codes", slot, row)

    assert found(run, Case(tokens=3, heads=2, head_dim=64)) == ()


@pytest.mark.parametrize(("derive", "names"), [("power_of_two", set()), ("divide", {"amax-population"})])
def test_half_of_the_scales_is_a_rule_where_they_are_no_powers_of_two(derive: str, names: set[str]) -> None:
    """Three tokens in four have the amax of all their heads, the fourth another scale yet."""
    contract = Contract(scale=Computed("token_head", derive=derive))  # type: ignore[arg-type]

    def scales(amax: Floats) -> Floats:
        found = np.asarray(amax / np.float32(448), np.float32)
        return np.exp2(np.ceil(np.log2(found))).astype(np.float32) if derive == "power_of_two" else found

    def run(memory: Memory) -> None:
        for tensor in ("k", "v"):
            x = memory.read(tensor)
            amax = np.abs(x).max(axis=2)
            scale = scales(amax)
            if tensor == "v":
                scale = np.broadcast_to(scales(amax.max(axis=1, keepdims=True)), scale.shape).copy()
                scale[::4] *= np.float32(4)
            codes = e4m3(x / scale[:, :, None])
            for token, slot in enumerate(memory.slots):
                memory.write(f"{tensor}_codes", int(slot), codes[token])
                memory.write(f"{tensor}_scales", int(slot), scale[token])

    emission = emulate(run, Case(tokens=12, heads=8, head_dim=16, dtype="fp32"), contract)
    verdict = judge(emission)
    assert (verdict.codes.k_wrong, verdict.scales.wrong > 40) == (0, True)
    assert {each.fault for each in diagnose(emission, verdict)} == names


@pytest.mark.parametrize(("values", "alike"), [("offset", True), ("normal*2^-6", False)])
def test_codes_of_one_magnitude_are_said_to_be_all_that_speaks(values: str, *, alike: bool) -> None:
    """A scale that is used twice saturates each code, or tells by those that it leaves."""

    def run(memory: Memory) -> None:
        given_store(0.125, 0.0625)(memory)
        codes = e4m3(memory.read("v") / np.float32(0.0625) / np.float32(0.0625))
        for token, slot in enumerate(memory.slots):
            memory.write("v_codes", int(slot), codes[token])

    case = Case(tokens=2, heads=1, head_dim=32, dtype="fp32", v_values=values)
    emission = emulate(run, case, Contract(scale=Given("tensor")), Form(scales="none"))
    (made,) = diagnose(emission, judge(emission))
    assert (made.fault, made.explains) == ("scale-misapplied", made.of)
    assert ("by codes that are all of one magnitude" in made.says) == alike


APPROXIMATE = Contract(scale=Computed("token_head", derive="divide_approx"), apply="divide_approx")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.v_values}-{case.tokens}")
@pytest.mark.parametrize("corrupt", [one_bit, one_code, no_code])
def test_a_declared_error_makes_no_name_for_what_goes_wrong_by_chance(corrupt: Corrupt, case: Case) -> None:
    """A right code may be a neighbour of the one that a form predicts, but no code that is none."""
    for seed in range(2):
        emission = emulate(corrupted(corrupt, seed, every=False), case, APPROXIMATE)
        assert diagnose(emission, judge(emission)) == ()


def test_a_rounding_under_a_declared_error_is_named_though_a_code_beside_it_went_the_other_way() -> None:
    """Codes toward zero of quotients that are an ulp off: where a code is exact, one that is not may be left."""

    def run(memory: Memory) -> None:
        store(memory)
        x = memory.read("v")
        off = np.float32(1) + np.float32(2**-23) * np.random.default_rng(6).integers(-1, 2, x.shape).astype(np.float32)
        codes = bits.encode(x / amax_scale(x)[:, :, None] * off, rounding="rtz")
        for token, slot in enumerate(memory.slots):
            memory.write("v_codes", int(slot), codes[token])

    emission = emulate(run, Case(tokens=8, heads=2, head_dim=64, v_values="normal"), APPROXIMATE)
    (made,) = diagnose(emission, judge(emission))
    assert (made.fault, made.explains) == ("rounding-mode", made.of)
    assert "toward zero" in made.says


def test_a_few_codes_at_ties_are_no_noise() -> None:
    """Stochastic rounding takes half of the ties the other way: twelve of some hundred are not its."""
    ties = Case(tokens=3, heads=1, head_dim=64, v_values="traps")

    def four(row: Bytes, random: Random) -> None:
        near = np.flatnonzero((row & 1) == 0)
        row[random.choice(near, 4, replace=False)] ^= 1

    assert found(corrupted(four, 1, every=True), ties) == ()
