"""The seven sketches: typed without Any, run on real placements, judged right, and judged wrong once broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from torch import Tensor

from kvcheck.api import StoreTarget
from kvcheck.formats.support import is_supported
from kvcheck.memory.place import place
from kvcheck.run.protocol import Failure
from kvcheck.schema import Case, Emission
from kvcheck.targets.limits import outside_limits

from . import block_tables, conch, freetoken, int8_per_token_head, lightllm_fused, load, vllm_per_token_head
from .running import judged, run

ROOT = Path(__file__).parents[2]
STORES = (
    freetoken.freetoken,
    conch.conch,
    vllm_per_token_head.vllm_per_token_head,
    int8_per_token_head.int8_per_token_head,
    lightllm_fused.per_head,
    lightllm_fused.per_tensor,
    block_tables.append_nhd,
    block_tables.append_hnd,
)
LOADS = (load.decode, load.decode_inline, load.decode_heads)
#: The stores that say what a negative slot does.
SKIPPING = tuple(target for target in STORES if target.contract.negative_slots == "skip")
#: The stores that take K and V apart.
APART = tuple(target for target in STORES if target.accepts.source == "k_v")

Arguments = list[object]


def name_of(target: object) -> str:
    """A target's name, for test ids."""
    return str(getattr(target, "name", target))


def swapped(first: int, second: int) -> Callable[[Arguments], Arguments]:
    """Exchange two positional arguments."""

    def change(arguments: Arguments) -> Arguments:
        arguments[first], arguments[second] = arguments[second], arguments[first]
        return arguments

    return change


def rolled(index: int) -> Callable[[Arguments], Arguments]:
    """Give one argument's first axis another order."""

    def change(arguments: Arguments) -> Arguments:
        tensor = arguments[index]
        assert isinstance(tensor, Tensor)
        arguments[index] = tensor.roll(1, 0)
        return arguments

    return change


BREAKS = (
    (freetoken.freetoken, freetoken, "quantize_kv_to_cache", swapped(5, 6), "scales wrong"),
    (conch.conch, conch, "reshape_and_cache", swapped(6, 7), "codes wrong"),
    (
        vllm_per_token_head.vllm_per_token_head,
        vllm_per_token_head,
        "triton_reshape_and_cache_flash_per_token_head_quant",
        rolled(1),
        "codes wrong",
    ),
    (
        int8_per_token_head.int8_per_token_head,
        int8_per_token_head,
        "store_int8_per_token_head",
        rolled(6),
        "codes wrong",
    ),
    (lightllm_fused.per_head, lightllm_fused, "destindex_copy_kv_fp8", rolled(2), "codes wrong"),
    (lightllm_fused.per_tensor, lightllm_fused, "destindex_copy_kv_fp8", rolled(2), "codes wrong"),
    (block_tables.append_nhd, block_tables, "append_paged_kv_cache", swapped(8, 9), "codes wrong"),
    (block_tables.append_hnd, block_tables, "append_paged_kv_cache", rolled(0), "codes wrong"),
    (load.decode, load, "dequantize", rolled(1), "codes wrong"),
    (load.decode_inline, load, "dequantize", rolled(0), "codes wrong"),
    (load.decode_heads, load, "dequantize", rolled(1), "codes wrong"),
)


def test_sketches_are_typed_without_any(tmp_path: Path) -> None:
    """The strict type checker takes every sketch, and none of them writes Any or takes it from kvcheck."""
    config = tmp_path / "mypy.ini"
    config.write_text(
        "[mypy]\nstrict = True\npython_version = 3.10\nwarn_unreachable = True\n"
        "enable_error_code = ignore-without-code, redundant-expr, truthy-bool\n"
        "[mypy-sketches.*]\ndisallow_any_explicit = True\ndisallow_any_unimported = True\n"
        "disallow_any_decorated = True\n"
        "[mypy-triton.*,ml_dtypes.*,pynvml.*,cuda.*]\nignore_missing_imports = True\nfollow_imports = skip\n"
        "[mypy-kvcheck.kernels.*]\ndisallow_untyped_defs = False\ndisallow_incomplete_defs = False\n"
        "disallow_untyped_calls = False\ndisallow_untyped_decorators = False\n"
        "[mypy-kvcheck.run.*,kvcheck.lowering.*]\ndisallow_untyped_calls = False\n",
        encoding="utf-8",
    )
    files = sorted(str(path.relative_to(ROOT)) for path in Path(__file__).parent.glob("*.py"))
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), *files]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("target", STORES, ids=name_of)
def test_every_store_sketch_can_be_judged(target: StoreTarget) -> None:
    """No sketch's contract is one that the judge leaves undecided."""
    assert is_supported(target.contract) is None


@pytest.mark.parametrize("views", [("qkv", "dense"), ("dense", "qkv"), ("qkv", "qkv"), ("dense", "dense")])
@pytest.mark.parametrize("target", APART, ids=name_of)
def test_stores_of_k_and_v_apart_pass(target: StoreTarget, views: tuple[str, str]) -> None:
    """K and V of unlike pitch, shapes and strides asserted by the stand-in, every byte judged right."""
    k_view, v_view = views
    case = Case(k_view=k_view, v_view=v_view, k_values="normal*5", v_values="normal*0.01", slots="permuted")
    verdict = judged(target, case)
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert verdict.codes.compared == 2 * 8 * 3 * 128
    assert verdict.independence.differs == 0


@pytest.mark.parametrize("view", ["kv", "qkv", "dense"])
@pytest.mark.parametrize("target", [lightllm_fused.per_head, lightllm_fused.per_tensor], ids=name_of)
def test_stores_of_one_fused_tensor_pass(target: StoreTarget, view: str) -> None:
    """K's heads, then V's, in rows with and without Q before them."""
    verdict = judged(target, Case(k_view=view, v_view=view, slots="permuted"))
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert verdict.codes.compared == 2 * 8 * 3 * 128


@pytest.mark.parametrize("slots", ["negative_mixed", "all_negative", "page_edges"])
@pytest.mark.parametrize("target", SKIPPING, ids=name_of)
def test_stores_skip_negative_slots(target: StoreTarget, slots: str) -> None:
    """Tokens without a slot leave no byte behind; page edges lie where the form has them."""
    verdict = judged(target, Case(k_view="qkv", slots=slots, slot_dtype="int32"))
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert (verdict.codes.compared == 0) == (slots == "all_negative")


@pytest.mark.parametrize("target", [target for target in STORES if target not in SKIPPING], ids=name_of)
def test_undefined_negative_slots_are_never_a_pass(target: StoreTarget) -> None:
    """What an engine leaves undefined is unsupported, before a run and after one."""
    case = Case(slots="negative_mixed", k_view="kv", v_view="kv")
    placement = place(case, target.contract, target.form, target.accepts, cuda=False)
    reason = outside_limits(case, target.contract, target.accepts, target.form, placement)
    assert reason == "the contract says negative_slots='undefined'; the case has negative_mixed"
    verdict = judged(target, case)
    assert verdict.outcome == "unsupported"
    assert "negative_slots='undefined'" in verdict.reason


@pytest.mark.parametrize("values", ["nan", "all_zero", "negative_zero", "subnormal_codes"])
@pytest.mark.parametrize("target", [freetoken.freetoken, conch.conch, block_tables.append_nhd], ids=name_of)
def test_stores_pass_on_special_values(target: StoreTarget, values: str) -> None:
    """NaN, zeros of both signs and the smallest codes, in both allocator layouts."""
    view = "kv" if target.accepts.source == "fused_kv" else "dense"
    for layout in ("arena", "pooled"):
        verdict = judged(target, Case(k_view=view, v_view=view, k_values=values, dtype="fp16", layout=layout))
        assert (verdict.outcome, verdict.reason) == ("pass", "")


@pytest.mark.parametrize("view", ["dense", "head_padded"])
def test_heads_with_gaps_are_outside_freetokens_limits(view: str) -> None:
    """What the adapter declares is what `view` needs: heads without gaps."""
    target = freetoken.freetoken
    case = Case(v_view=view)
    placement = place(case, target.contract, target.form, target.accepts, cuda=False)
    reason = outside_limits(case, target.contract, target.accepts, target.form, placement)
    assert (reason is None) == (view == "dense")


def test_an_assertion_of_the_engine_is_a_refusal() -> None:
    """FreeToken asserts equal widths of K and V; the adapter lists AssertionError, and nothing was stored."""
    failure = run(freetoken.freetoken, Case(head_dim=128, head_dim_v=64))
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.summary) == ("refused", "AssertionError: one width for K and V")


@pytest.mark.parametrize("target", [conch.conch, vllm_per_token_head.vllm_per_token_head], ids=name_of)
def test_k_and_v_may_have_unlike_head_dims(target: StoreTarget) -> None:
    """Each side has pages, and inline rows, of its own width."""
    verdict = judged(target, Case(head_dim=192, head_dim_v=128, k_view="qkv"))
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert verdict.codes.compared == 8 * 3 * (192 + 128)


@pytest.mark.parametrize("slots", ["ascending", "permuted", "last"])
@pytest.mark.parametrize("target", LOADS, ids=name_of)
def test_loads_pass(target: StoreTarget, slots: str) -> None:
    """Every code, NaNs and -0 included, times its scale, rounded to the output's dtype."""
    verdict = judged(target, Case(slots=slots, head_dim_v=64))
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert verdict.codes.compared == 8 * 3 * (128 + 64)
    assert verdict.independence.differs == 0


@pytest.mark.parametrize("target", LOADS, ids=name_of)
def test_loads_of_negative_slots_are_never_a_pass(target: StoreTarget) -> None:
    """A load contract does not say what such a token holds."""
    verdict = judged(target, Case(slots="negative_mixed"))
    assert (verdict.outcome, verdict.reason) == (
        "unsupported",
        "a load contract does not say what negative slots load",
    )


@pytest.mark.parametrize(
    ("target", "module", "function", "change", "reason"), BREAKS, ids=[name_of(broken[0]) for broken in BREAKS]
)
def test_a_broken_stand_in_is_a_mismatch(
    monkeypatch: pytest.MonkeyPatch,
    target: StoreTarget,
    module: ModuleType,
    function: str,
    change: Callable[[Arguments], Arguments],
    reason: str,
) -> None:
    """Handed its sibling's scale, or rows in another order, every sketch is seen to be wrong."""
    original = vars(module)[function]
    assert callable(original)

    def broken(*arguments: object, **options: object) -> object:
        return original(*change(list(arguments)), **options)

    monkeypatch.setattr(module, function, broken)
    fused = target.accepts.source == "fused_kv"
    case = Case(k_view="kv" if fused else "qkv", v_view="kv" if fused else "dense", k_scale="2^-3", v_scale="2^-5")
    emission = run(target, case)
    assert isinstance(emission, Emission), emission.error
    verdict = judged(target, case)
    assert verdict.outcome == "mismatch"
    assert reason in verdict.reason
