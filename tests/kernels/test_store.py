"""kvcheck's own store, in the interpreter: every byte right, and a sentence for what it does not take."""

from __future__ import annotations

import re

import pytest
import torch
from sketches.running import judged

from kvcheck.api import Cache, Side
from kvcheck.errors import Refused
from kvcheck.schema import Case

pytestmark = [
    pytest.mark.usefixtures("interpreter"),
    # numpy, which the interpreter computes with, warns of signalling NaNs and of inf / inf.
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]

CASES = (
    *(Case(head_dim=dim, tokens=3, k_view="qkv", slots="permuted") for dim in (46, 80, 96, 576)),
    *(Case(heads=heads, head_dim=64, tokens=3, v_view="head_padded") for heads in (1, 3, 5, 6, 8)),
    *(Case(slot_dtype=kind, slots="negative_mixed", tokens=5, head_dim=80) for kind in ("int32", "int64")),
    Case(slots="all_negative", tokens=2),
    Case(tokens=0),
    Case(tokens=1, heads=1, head_dim=1),
    Case(k_view="inner2", v_view="inner2", tokens=3),
    Case(k_view="transposed", v_view="head_interleaved", tokens=3, order="vk"),
    Case(k_view="every_second", v_view="expanded", tokens=3),
    Case(k_view="offset17", v_view="offset1", tokens=3, dtype="fp32", align=4),
    Case(head_dim=192, head_dim_v=128, tokens=3, k_view="kv", v_view="kv"),
    Case(k_cache="head_padded", v_cache="padded", tokens=3, slot_view="every_second"),
    Case(layout="pooled", tokens=3, k_view="qkv", dtype="fp16"),
    Case(extra_tokens=3, tokens=2, k_view="qkv", slot_view="every_second"),
    Case(extra_tokens=2, tokens=0),
)


def spell(case: Case) -> str:
    """What a case has that the default one has not."""
    told = {name: getattr(case, name) for name in case.__struct_fields__}
    return ",".join(f"{name}={value}" for name, value in told.items() if value != getattr(Case(), name))


@pytest.mark.parametrize("case", CASES, ids=spell)
def test_store_is_right(case: Case) -> None:
    """Odd sizes, all views, both slot dtypes: exact codes and scales, none legal, none stray, no foreign read."""
    from kvcheck.kernels.store import store  # noqa: PLC0415 - imports triton

    verdict = judged(store, case)
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    rows = {"negative_mixed": None, "all_negative": 0}.get(case.slots, case.tokens)
    if rows is not None:
        assert verdict.codes.compared == rows * case.heads * (case.head_dim + case.dim_v)
        assert verdict.scales.compared == rows * case.heads * 2
    else:
        assert 0 < verdict.codes.compared < case.tokens * case.heads * 2 * case.head_dim
    assert (verdict.codes.legal, verdict.scales.legal) == (0, 0)
    assert verdict.determinism.launches == 3
    assert verdict.independence.differs == (0 if case.layout == "arena" else None)


@pytest.mark.parametrize(
    "values", ["nan", "inf", "all_zero", "zero_rows", "negative_zero", "midpoints", "subnormal_codes", "normal*2^-120"]
)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_store_is_right_on_special_values(values: str, dtype: str) -> None:
    """Every value whose rounding, sign or class matters."""
    from kvcheck.kernels.store import store  # noqa: PLC0415 - imports triton

    case = Case(k_values=values, v_values=values, tokens=2, dtype="fp32" if dtype == "fp32" else "bf16")
    verdict = judged(store, case)
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert (verdict.codes.wrong, verdict.codes.legal) == (0, 0)


def test_equal_logical_inputs_give_equal_digests() -> None:
    """Views, layouts and slots move bytes around; the rows that are stored stay the same."""
    from kvcheck.kernels.store import store  # noqa: PLC0415 - imports triton

    cases = (Case(tokens=3), Case(tokens=3, k_view="qkv", layout="pooled"), Case(tokens=3, v_view="inner2"))
    assert len({judged(store, case).digest for case in cases}) == 1


def test_rows_beyond_the_slots_leave_the_others_as_they_are() -> None:
    """A padded batch stores what the batch without its padding does."""
    from kvcheck.kernels.store import store  # noqa: PLC0415 - imports triton

    assert judged(store, Case(tokens=3, extra_tokens=4)).digest == judged(store, Case(tokens=3)).digest


@pytest.mark.parametrize("slot_dtype", [torch.int32, torch.int64])
def test_of_tokens_that_share_a_slot_the_last_is_stored(slot_dtype: torch.dtype) -> None:
    """Wherever the last one is: next, in the same step of slots, in the one after it, or the last of all."""
    from kvcheck.kernels.store import SLOTS_A_STEP, launch  # noqa: PLC0415 - imports triton

    tokens = 2 * SLOTS_A_STEP + 2
    shared = {0: 0, 1: 0, 2: 1, SLOTS_A_STEP + 1: 1, 3: 2, 4: 2, SLOTS_A_STEP + 5: 2, 5: 3, tokens - 1: 3}
    names = [shared.get(token, token) for token in range(tokens)]
    rows = torch.arange(1.0, tokens + 1).reshape(tokens, 1, 1)
    codes, scales = torch.zeros(tokens, 1, 1, dtype=torch.uint8), torch.zeros(tokens, 1)
    launch(rows, rows, torch.tensor(names, dtype=slot_dtype), cache(codes, scales))
    last = {slot: token for token, slot in enumerate(names)}
    assert (scales * 448)[:, 0].round().tolist() == [last.get(slot, -1) + 1 for slot in range(tokens)]
    assert codes[:, 0, 0].tolist() == [0x7E if slot in last else 0 for slot in range(tokens)]


def test_of_tokens_that_share_a_slot_the_others_store_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one would win here in any case, where programs run one after the other; on a GPU they race."""
    from kvcheck.kernels import store  # noqa: PLC0415 - imports triton

    stored: list[int] = []
    monkeypatch.setattr(store, "store_side", lambda *arguments: stored.append(int(arguments[3])))
    rows, slots = torch.ones(70, 1, 1), torch.tensor([*range(2, 68), 0, 1, 0, 2])
    store.launch(rows, rows, slots, cache(torch.zeros(70, 1, 1, dtype=torch.uint8), torch.zeros(70, 1)))
    assert stored[::2] == stored[1::2] == [*range(1, 66), 67, 68, 69]


def test_store_is_right_where_slots_are_shared() -> None:
    """A slot is judged once, and its row is a whole one."""
    from kvcheck.kernels.store import store  # noqa: PLC0415 - imports triton

    verdict = judged(store, Case(slots="duplicates", tokens=5, head_dim=80))
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert verdict.codes.compared == 3 * 3 * 2 * 80


@pytest.mark.parametrize(("k_view", "wrong"), [("qkv", True), ("dense", False)])
def test_shared_pitch_is_wrong_where_the_pitches_differ(k_view: str, wrong: bool) -> None:
    """The specimen's fault shows in V alone, and only where K's rows are further apart than V's."""
    from kvcheck.kernels.specimens.shared_pitch import shared_pitch  # noqa: PLC0415 - imports triton

    verdict = judged(shared_pitch, Case(k_view=k_view, k_values="normal*5", v_values="normal*0.01"))
    assert verdict.outcome == ("mismatch" if wrong else "pass")
    assert verdict.codes.k_wrong == 0
    assert (verdict.codes.v_wrong > 2500) == wrong


def cache(codes: torch.Tensor, scales: torch.Tensor) -> Cache:
    """A cache whose K and V are these tensors."""
    k, v = (Side(name, {"codes": codes, "scales": scales}, {}) for name in ("k", "v"))
    return Cache(len(codes), 1, codes.shape[1], codes.shape[2], codes.shape[2], k, v)


GOOD = torch.zeros(2, 3, 8)
SLOTS = torch.zeros(2, dtype=torch.int64)
CODES = torch.zeros(4, 3, 8, dtype=torch.uint8)
SCALES = torch.zeros(4, 3)
ON_EACH_OTHER = "elements lie on each other; accepted: any strides that keep them apart"


@pytest.mark.parametrize(
    ("k", "v", "slots", "codes", "scales", "sentence"),
    [
        (GOOD[0], GOOD, SLOTS, CODES, SCALES, "k has shape (3, 8); accepted: [tokens, heads, head_dim]"),
        (GOOD, GOOD.double(), SLOTS, CODES, SCALES, "v has dtype torch.float64; accepted: bfloat16, float16, float32"),
        (
            torch.zeros(1, 1, 1).expand(1, 1025, 1024), GOOD, SLOTS, CODES, SCALES,
            "k has 1025 heads of 1024; accepted: tiles to 1048576",
        ),
        (GOOD[:1], GOOD, SLOTS, CODES, SCALES, "k is (1, 3, 8) and v (2, 3, 8); accepted: equal tokens and heads"),
        (GOOD, GOOD, SLOTS.short(), CODES, SCALES, "slots has dtype torch.int16; accepted: int32, int64"),
        (
            GOOD[:1], GOOD[:1], SLOTS, CODES, SCALES,
            "slots has shape (2,); accepted: one a token, 1 or fewer",
        ),
        (GOOD, GOOD, SLOTS[:, None], CODES, SCALES, "slots has shape (2, 1); accepted: one a token, 2 or fewer"),
        (GOOD, GOOD, SLOTS, CODES.char(), SCALES, "cache.k.codes has dtype torch.int8; accepted: torch.uint8"),
        (GOOD, GOOD, SLOTS, CODES[:, :2], SCALES, "cache.k.codes has rows of (2, 8); accepted: (3, 8)"),
        (GOOD, GOOD, SLOTS, CODES, SCALES.half(), "cache.k.scales has dtype torch.float16; accepted: torch.float32"),
        (
            GOOD, GOOD, SLOTS, CODES.as_strided((4, 3, 8), (8, 8, 1)), SCALES,
            f"cache.k.codes has strides (8, 8, 1) for shape (4, 3, 8): {ON_EACH_OTHER}",
        ),
        (
            GOOD, GOOD, SLOTS, CODES, SCALES.as_strided((4, 3), (0, 1)),
            f"cache.k.scales has strides (0, 1) for shape (4, 3): {ON_EACH_OTHER}",
        ),
    ],
)  # fmt: skip
def test_refusals_name_the_tensor_what_it_has_and_what_is_accepted(
    k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, sentence: str
) -> None:
    """Refused before anything is launched."""
    from kvcheck.kernels.store import check  # noqa: PLC0415 - imports triton

    with pytest.raises(Refused, match=f"^{re.escape(sentence)}$"):
        check(k, v, slots, cache(codes, scales))


def test_what_is_accepted_is_not_refused() -> None:
    """The same tensors, with rows apart and heads reversed in memory."""
    from kvcheck.kernels.store import check  # noqa: PLC0415 - imports triton

    check(GOOD, GOOD, SLOTS.int(), cache(CODES, SCALES))
    wide = torch.zeros(4, 3, 8, 2, dtype=torch.uint8)[..., 0]
    check(GOOD.transpose(0, 1).contiguous().transpose(0, 1), GOOD, SLOTS, cache(wide, torch.zeros(3, 4).t()))
