"""Load targets, judged from emissions of a small load kernel in numpy: right, and wrong in one way each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import TypeAlias

import ml_dtypes
import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from kvcheck.addresses import byte_offsets, element_offsets, row_offsets
from kvcheck.contract import Accepts, Form, LoadContract
from kvcheck.draw.image import case_inputs, images
from kvcheck.judge.judge import judge
from kvcheck.memory.place import place
from kvcheck.schema import ITEMSIZE, Case, Change, Emission, Launch, Placed, Placement, Poison, Prefill, Verdict

Bytes: TypeAlias = npt.NDArray[np.uint8]
Floats: TypeAlias = npt.NDArray[np.float32]

PLAN: tuple[tuple[Prefill, Poison], ...] = (("A", "A"), ("B", "B"), ("C", "A"), ("A", "A"))
KINDS = {"bf16": np.dtype(ml_dtypes.bfloat16), "fp16": np.dtype(np.float16), "fp32": np.dtype(np.float32)}
SMALL = Case(tokens=4, heads=2, head_dim=64, head_dim_v=32, slots="permuted")


class Memory:
    """All allocations of one launch of a load."""

    def __init__(self, arrays: list[Bytes], placement: Placement, contract: LoadContract, number: int) -> None:
        """`arrays` are written in place; launches count from 1."""
        self.arrays, self.placement, self.contract, self.number = arrays, placement, contract, number

    def where(self, name: str, slots: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64]:
        """The bytes of a tensor's rows at `slots`, or of all its elements."""
        placed = self.placement.get(name)
        offsets = element_offsets(placed) if slots is None else row_offsets(placed, slots)
        return byte_offsets(offsets, ITEMSIZE[placed.dtype])

    def read(self, name: str, slots: npt.NDArray[np.int64] | None = None) -> Bytes:
        """Those bytes."""
        return self.arrays[self.placement.get(name).allocation][self.where(name, slots)]

    def write(self, name: str, data: npt.NDArray[np.generic]) -> None:
        """Fill a tensor."""
        raw = np.ascontiguousarray(data).view(np.uint8)
        self.arrays[self.placement.get(name).allocation][self.where(name).ravel()] = raw.ravel()

    @property
    def slots(self) -> npt.NDArray[np.int64]:
        """The slot ids."""
        return self.read("slots").view(np.int64)[..., 0]


Kernel: TypeAlias = Callable[[Memory], None]


def load(memory: Memory, change: Callable[[Floats], Floats] = lambda x: x) -> None:
    """Decode with ml_dtypes, times the scale; `change` comes before the rounding."""
    contract = memory.contract
    for side in ("k", "v"):
        codes = memory.read(f"{side}_codes", memory.slots)[..., 0]
        value = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
        if contract.scale == "token_head":
            scale = memory.read(f"{side}_scales", memory.slots).view(np.float32)
        elif contract.scale is None:
            scale = np.ones((1, 1, 1), np.float32)
        else:
            scale = memory.read(f"{side}_scale").view(np.float32).reshape(1, -1, 1)
        memory.write(f"out_{side}", change(np.asarray(value * scale, np.float32)).astype(KINDS[contract.out]))


def emulate(
    kernel: Kernel = load, contract: LoadContract | None = None, case: Case = SMALL, form: Form | None = None,
    launches: int = 3,
) -> Emission:  # fmt: skip
    """Run a kernel as a case's process would."""
    contract = LoadContract() if contract is None else contract
    form = Form() if form is None else form
    placement = place(case, contract, form, Accepts(), cuda=False)
    made = tuple(_launch(kernel, case, contract, placement, number) for number in range(1, launches + 1))
    return Emission(case, contract, form, placement, (0,), made, (), (), "emulated")


def _launch(kernel: Kernel, case: Case, contract: LoadContract, placement: Placement, number: int) -> Launch:
    prefill, poison = PLAN[number - 1]
    before = images(placement, case, contract, prefill, poison)
    memory = Memory([array.copy() for array in before], placement, contract, number)
    kernel(memory)
    rows, changes = {}, []
    kept = case_inputs(placement, case, contract).slots >= 0
    for name in ("out_k", "out_v"):
        rows[name] = memory.read(name)[kept].tobytes()
        memory.arrays[placement.get(name).allocation][memory.where(name).ravel()] = before[0][
            memory.where(name).ravel()
        ]
    for index, (was, now) in enumerate(zip(before, memory.arrays, strict=True)):
        unlike = enumerate(np.flatnonzero(was != now).tolist())
        for _, run in groupby(unlike, key=lambda pair: pair[1] - pair[0]):
            where = [position for _, position in run]
            changes.append(Change(index, where[0], now[where].tobytes()))
    return Launch(prefill, poison, rows, tuple(changes))


def verdict_of(kernel: Kernel, contract: LoadContract | None = None, launches: int = 3) -> Verdict:
    """Judge what a kernel does."""
    return judge(emulate(kernel, contract, launches=launches))


@pytest.mark.parametrize("out", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("scale", ["token_head", "tensor", "head", None])
@pytest.mark.parametrize("form", [Form(), Form("heads_pages", page=4), Form("packed", page=2)])
def test_a_right_load_passes(out: str, scale: str | None, form: Form) -> None:
    """Codes of all 256 values, NaNs and -0 among them, in every output dtype and kind of scale."""
    contract = msgspec.convert({"type": "load", "out": out, "scale": scale}, LoadContract)
    verdict = judge(emulate(load, contract, form=form))
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert (verdict.codes.compared, verdict.codes.wrong_any_launch) == (4 * 2 * (64 + 32), 0)
    assert (verdict.independence.differs, verdict.determinism.launches) == (0, 3)
    assert verdict.digest is not None
    assert len(verdict.digest.codes) == 32


def test_a_pooled_load_says_that_independence_is_not_judged() -> None:
    """As for stores: the layout has no poison."""
    verdict = judge(emulate(case=msgspec.structs.replace(SMALL, layout="pooled")))
    assert verdict.outcome == "pass"
    assert verdict.independence.reason == "layout pooled has no poison"


def test_no_tokens_compare_nothing() -> None:
    """A pass in which nothing was compared says so."""
    verdict = judge(emulate(case=msgspec.structs.replace(SMALL, tokens=0)))
    assert (verdict.outcome, verdict.codes.compared) == ("pass", 0)


def test_truncation_in_place_of_rounding_is_wrong() -> None:
    """bf16 by cutting bits: about half of the elements that are not exact."""

    def cut(values: Floats) -> Floats:
        shortened: Floats = (np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        return shortened

    verdict = verdict_of(lambda memory: load(memory, cut))
    assert verdict.outcome == "mismatch"
    assert verdict.codes.wrong == verdict.codes.k_wrong + verdict.codes.v_wrong
    assert 0.3 < verdict.codes.wrong / verdict.codes.compared < 0.7
    assert verdict.codes.wrong_any_launch == verdict.codes.wrong
    assert verdict.reason.startswith(f"{verdict.codes.wrong} of 768 codes wrong")


def test_the_first_wrong_element_is_told_in_full() -> None:
    """Where it is, what it is, what it should be, and of which code and scale."""

    def kernel(memory: Memory) -> None:
        load(memory)
        out = memory.read("out_v").copy()
        out[2, 1, 5] ^= 1
        out[3, 0, 0] ^= 1
        memory.write("out_v", out)

    emission = emulate(kernel)
    verdict = judge(emission)
    first = verdict.codes.first
    assert first is not None
    assert (verdict.codes.k_wrong, verdict.codes.v_wrong) == (0, 2)
    assert (first.tensor, first.token, first.head, first.dim) == ("v", 2, 1, 5)
    assert first.slot == case_inputs(emission.placement, SMALL, LoadContract()).slots[2]
    assert first.got == first.want ^ 0x0101
    assert first.x is not None
    assert first.scale is not None
    assert first.want == int(np.array([first.x * first.scale]).astype(ml_dtypes.bfloat16).view(np.uint16)[0])


def test_a_lost_sign_of_zero_is_wrong() -> None:
    """-0 times a scale is -0: other bytes than 0."""
    verdict = verdict_of(lambda memory: load(memory, lambda x: np.where(x == 0, np.float32(0), x)))
    assert verdict.outcome == "mismatch"
    assert 1 <= verdict.codes.wrong <= 6


def test_any_nan_stands_for_nan() -> None:
    """No rule promises a payload or a sign; a number in its place is wrong."""

    def payload(values: Floats) -> Floats:
        return np.where(np.isnan(values), np.array(0xFFE10000, np.uint32).view(np.float32), values)

    assert verdict_of(lambda memory: load(memory, payload), LoadContract(out="fp32")).outcome == "pass"
    verdict = verdict_of(lambda memory: load(memory, lambda x: np.nan_to_num(x, nan=480.0)))
    assert verdict.outcome == "mismatch"
    assert 2 <= verdict.codes.wrong <= 8


def test_nan_for_a_number_is_wrong() -> None:
    """The other way round."""
    verdict = verdict_of(lambda memory: load(memory, lambda x: np.where(np.abs(x) > 100, np.float32("nan"), x)))
    assert verdict.outcome == "mismatch"


def test_undefined_nans_are_not_compared() -> None:
    """Whatever stands there; everything else is."""
    contract = LoadContract(nan="undefined")
    verdict = verdict_of(lambda memory: load(memory, lambda x: np.nan_to_num(x, nan=480.0)), contract)
    assert verdict.outcome == "pass"
    assert 760 <= verdict.codes.compared < 768


def test_elements_that_are_never_written_are_lost() -> None:
    """They equal their prefill in all three launches, and are no codes."""

    def kernel(memory: Memory) -> None:
        before = memory.read("out_k").copy()
        load(memory)
        out = memory.read("out_k").copy()
        out[1, 0] = before[1, 0]
        memory.write("out_k", out)

    verdict = verdict_of(kernel)
    assert (verdict.outcome, verdict.reason) == ("mismatch", "128 bytes never stored")
    assert (verdict.writes.lost, verdict.codes.compared, verdict.codes.wrong) == (128, 768 - 64, 0)


def test_a_write_beyond_the_output_is_stray() -> None:
    """In a guard, where nothing of the case lies."""

    def kernel(memory: Memory) -> None:
        load(memory)
        memory.arrays[0][memory.where("out_v").max() + 1] ^= 0xFF

    verdict = verdict_of(kernel)
    assert (verdict.outcome, verdict.writes.stray) == ("mismatch", 1)


@pytest.mark.parametrize("name", ["k_codes", "v_scales", "slots"])
def test_a_load_that_changes_what_it_is_handed(name: str) -> None:
    """Codes, scales and slots are inputs here, addressed or not."""

    def kernel(memory: Memory) -> None:
        load(memory)
        memory.arrays[0][memory.where(name).ravel()[0]] ^= 0xFF

    verdict = verdict_of(kernel)
    assert (verdict.outcome, verdict.inputs.changed, verdict.inputs.tensors) == ("violation", 1, (name,))
    assert verdict.writes.stray == 0


def test_wrong_rows_are_wrong_codes() -> None:
    """The row beside the addressed one is prefill: other numbers."""

    def kernel(memory: Memory) -> None:
        load(memory)
        rows = memory.read("k_codes", (memory.slots + 1) % 32)[..., 0].view(ml_dtypes.float8_e4m3fn)
        memory.write("out_k", rows.astype(np.float32).astype(ml_dtypes.bfloat16))

    verdict = verdict_of(kernel, launches=4)
    assert verdict.outcome == "mismatch"
    assert verdict.codes.k_wrong > 300


def test_a_foreign_read_that_shows_in_one_launch_alone() -> None:
    """An undefined element that follows other bytes of the cache depends on what must not matter."""

    def kernel(memory: Memory) -> None:
        foreign = memory.arrays[0][memory.where("k_codes").max() + 1]
        load(memory, lambda x: np.where(np.isnan(x), np.float32(foreign), x))

    # NaNs are compared here, so that the numbers in their place are wrong; where they are undefined none is compared.
    assert verdict_of(kernel, launches=4).outcome == "mismatch"

    def late(memory: Memory) -> None:
        load(memory, (lambda x: x) if memory.number != 2 else (lambda x: np.where(x == 0, np.abs(x), x)))

    verdict = verdict_of(late)
    assert verdict.outcome == "mismatch"
    assert verdict.codes.wrong == 0
    assert verdict.codes.wrong_any_launch > 0
    assert verdict.codes.first is not None
    assert verdict.codes.first.launch == 2


def test_nan_payloads_that_follow_the_cache_are_a_foreign_read() -> None:
    """Right by the contract in every launch, and yet unlike between launches that differ in what must not matter."""

    def kernel(memory: Memory) -> None:
        foreign = np.uint32(memory.arrays[0][memory.where("k_codes").max() + 1]) & np.uint32(0x3F)
        nan = (np.uint32(0x7FC00000) | (foreign << np.uint32(16))).reshape(1).view(np.float32)[0]
        load(memory, lambda x: np.where(np.isnan(x), nan, x))

    verdict = verdict_of(kernel, LoadContract(out="fp32"), launches=4)
    assert verdict.codes.wrong_any_launch == 0
    assert verdict.outcome == "violation"
    assert verdict.independence.differs is not None
    assert verdict.independence.differs > 0


def test_nan_payloads_that_follow_nothing_are_not_deterministic() -> None:
    """Launches 1 and 4 are equal in all that they were given."""

    def kernel(memory: Memory) -> None:
        nan = np.array(0x7FC00000 + (memory.number // 3 << 16), np.uint32).view(np.float32)
        load(memory, lambda x: np.where(np.isnan(x), nan, x))

    verdict = verdict_of(kernel, LoadContract(out="fp32"), launches=4)
    assert (verdict.outcome, verdict.independence.reason) == ("violation", "the kernel is not deterministic")
    assert verdict.determinism.values_drift > 0
    assert verdict_of(kernel, LoadContract(out="fp32")).outcome == "inconclusive"


def test_what_a_load_contract_leaves_open_is_unsupported() -> None:
    """Negative slots, and a scale a row that the form has no place for."""
    case = msgspec.structs.replace(SMALL, slots="negative_mixed")
    verdict = judge(emulate(lambda _: None, case=case))
    assert (verdict.outcome, verdict.reason) == ("unsupported", "a load contract does not say what negative slots load")
    verdict = judge(emulate(lambda _: None, form=Form(scales="none")))
    assert verdict.outcome == "unsupported"
    assert verdict.reason == "the contract has a scale a token and head, and the form says scales='none'"


def test_malformed_emissions_are_inconclusive() -> None:
    """Too few launches, rows of another size, changes outside, no output at all."""
    good = emulate()
    replace = msgspec.structs.replace
    launch = good.launches[0]
    torn = replace(launch, rows={**launch.rows, "out_k": b""})
    outside = replace(launch, changes=(Change(0, good.placement.allocations[0], b"x"),))
    nowhere = replace(launch, changes=(Change(7, 0, b"x"),))
    bare = replace(good.placement, tensors=tuple(t for t in good.placement.tensors if not _is_output(t)))
    wrong = {
        "2 launches": replace(good, launches=good.launches[:2]),
        "launch 1 holds rows of": replace(good, launches=(torn, *good.launches[1:])),
        "launch 1: a change at bytes ": replace(good, launches=(outside, *good.launches[1:])),
        "launch 1: a change in allocation 7, of ": replace(good, launches=(nowhere, *good.launches[1:])),
        "the placement has no output tensors": replace(good, placement=bare),
        "0 launches": replace(good, launches=()),
    }
    for reason, emission in wrong.items():
        verdict = judge(emission)
        assert verdict.outcome == "inconclusive"
        assert verdict.reason.startswith(reason)


def _is_output(placed: Placed) -> bool:
    return placed.name.startswith("out_")
