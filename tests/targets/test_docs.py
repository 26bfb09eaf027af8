"""The examples of docs/adapters.md, run with stand-ins for engines: each is judged right, and wrong once broken."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
import torch
from sketches.arithmetic import e4m3
from sketches.running import judged
from torch import Tensor

from kvcheck.api import Cache, LoadTarget, StoreTarget, store_target
from kvcheck.contract import Computed, Contract, Form, Given
from kvcheck.matrix.load import load_cases
from kvcheck.schema import Case

TEXT = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
LATENT = Case(heads=1, head_dim=512, head_dim_v=64, k_view="qkv")
CASE = Case(k_view="qkv", k_values="normal*5", v_values="midpoints", k_scale="0.0123", v_scale="3.7", head_dim=64)

Scaled = tuple[Tensor, Tensor]


def over(values: Tensor, number: Tensor | float) -> Tensor:
    """The IEEE quotient."""
    return values / torch.as_tensor(number, dtype=torch.float32).expand_as(values)


def amax_of(x: Tensor) -> Tensor:
    """Of each row, as a column."""
    return x.abs().amax(-1, keepdim=True)


def ceiled(scale: Tensor) -> Tensor:
    """The least power of two that is not below."""
    mantissa, exponent = torch.frexp(scale)
    return torch.ldexp(torch.ones_like(scale), exponent - (mantissa == 0.5).int())


def of_blocks(x: Tensor) -> Scaled:
    """Scales of 32 elements each, in fp16."""
    rows = x.reshape(*x.shape[:-1], -1, 32)
    amax = amax_of(rows)
    scale = torch.where(amax > 0, over(amax, 448.0), torch.ones_like(amax)).half().float()
    return (rows / scale).flatten(-2), scale[..., 0]


def by(scale: Tensor, x: Tensor) -> Scaled:
    """Rows divided by their scales."""
    return x / scale, scale[..., 0]


#: What each contract of the examples says, in torch: the scaled rows and the scales of fp32 rows.
COMPUTED: dict[str, Callable[[Tensor], Scaled]] = {
    "divide": lambda x: by(over(amax_of(x).clamp(min=1e-10), 448.0), x),
    "divide_approx": lambda x: by(over(amax_of(x).clamp(min=1e-10), 448.0), x),
    "reciprocal": lambda x: (
        x * (1.0 / over(amax_of(x), 448.0).clamp(min=1e-6)),
        over(amax_of(x), 448.0).clamp(min=1e-6)[..., 0],
    ),
    "approx": lambda x: (
        x * (1.0 / over(amax_of(x), 448.0).clamp(min=1e-6)),
        over(amax_of(x), 448.0).clamp(min=1e-6)[..., 0],
    ),
    "added": lambda x: by(over(amax_of(x), 127.0) + 1e-8, x),
    "power": lambda x: by(ceiled(over(amax_of(x), 448.0).clamp(min=1e-4)), x),
    "blocks": of_blocks,
    "int8": lambda x: by(over(amax_of(x).clamp(min=1e-10), 127.0), x),
}


#: Those whose scale is an input.
GIVEN = ("given", "multiplier", "in_bf16")


def half_away(q: Tensor) -> Tensor:
    """Int8 codes, halves away from zero."""
    return (q.sign() * (q.abs() + 0.5).floor()).clamp(-128, 127).to(torch.int8).view(torch.uint8)


def toward_zero(q: Tensor) -> Tensor:
    """Int8 codes, cut."""
    return q.trunc().clamp(-127, 127).to(torch.int8).view(torch.uint8)


def target_of(name: str, contract: Contract, scaled: Callable[[Tensor], Scaled]) -> StoreTarget:
    """A store that keeps a contract in torch."""
    encode: Callable[[Tensor], Tensor] = e4m3
    if contract.format == "int8":
        encode = half_away if contract.rounding == "half_away" else toward_zero
    form = Form("slots", codes="int8" if contract.format == "int8" else "uint8")
    if isinstance(contract.scale, Given):
        form = Form("slots", scales="none")

    @store_target(name, contract=contract, cache=form)
    def store(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:
        for source, side in ((k, cache.k), (v, cache.v)):
            if isinstance(contract.scale, Given):
                times = contract.scale.direction == "multiplier"
                q = source.float() * side.scale if times else over(source.float(), side.scale)
                if contract.compute == "bf16":
                    q = (source / side.scale.bfloat16()).float()
            else:
                q, scales = scaled(source.float())
                exponents = side.scale_pages.dtype == torch.uint8
                side.scale_pages[slots.long()] = (
                    (torch.frexp(scales).exponent + 126).to(torch.uint8)
                    if exponents
                    else scales.to(side.scale_pages.dtype)
                )
            side.codes.view(torch.uint8)[slots.long()] = encode(q)

    return store


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The engine that the examples import, with one function each."""
    module = ModuleType("my_engine")

    def reshape_and_cache(
        k: Tensor, v: Tensor, k_pages: Tensor, v_pages: Tensor, k_scales: Tensor, v_scales: Tensor, slots: Tensor
    ) -> None:
        kept = slots.long() >= 0
        page, row = slots.long()[kept] // k_pages.shape[1], slots.long()[kept] % k_pages.shape[1]
        for source, pages, scale_pages in ((k, k_pages, k_scales), (v, v_pages, v_scales)):
            q, scales = COMPUTED["divide"](source[: len(slots)].float()[kept])
            pages.view(torch.uint8)[page, row] = e4m3(q)
            scale_pages[page, row] = scales

    def gather(codes: Tensor, scales: Tensor, slots: Tensor, out: Tensor) -> None:
        where = slots.long()
        out.copy_((codes.view(torch.float8_e4m3fn)[where].float() * scales[where][..., None]).to(out.dtype))

    def concat_and_cache_mla(latent: Tensor, rope: Tensor, pages: Tensor, slots: Tensor, scale: Tensor) -> None:
        kept = slots.long() >= 0
        page, row = slots.long()[kept] // pages.shape[1], slots.long()[kept] % pages.shape[1]
        for source, part in ((latent, slice(512)), (rope, slice(512, None))):
            q = over(source[: len(slots)].float()[kept], scale)
            pages.view(torch.uint8)[page, row, part] = e4m3(q)

    vars(module).update(reshape_and_cache=reshape_and_cache, gather=gather, concat_and_cache_mla=concat_and_cache_mla)
    monkeypatch.setitem(sys.modules, "my_engine", module)
    return module


def run_block(number: int) -> dict[str, object]:
    """What a block of the page defines."""
    names: dict[str, object] = {"__name__": "docs"}
    exec(compile(BLOCKS[number], f"docs/adapters.md, block {number}", "exec"), names)  # noqa: S102 - the page's own code
    return names


def block_with(text: str) -> int:
    """The number of the one block that has a text."""
    (found,) = [number for number, block in enumerate(BLOCKS) if text in block]
    return found


def contracts() -> dict[str, Contract]:
    """The contracts of the page, by their names there."""
    return {name: value for name, value in run_block(block_with("divide = ")).items() if isinstance(value, Contract)}


def test_the_defaults_of_a_form_are_those_of_the_page() -> None:
    """Every field, in order, with the value that it has where nothing is said."""
    rows = re.findall(r'^\| `(\w+)`[^|]*\| `("?\w+"?)` \|', TEXT[TEXT.index("| term of `Form`") :], flags=re.MULTILINE)
    assert {name: ast.literal_eval(value) for name, value in rows} == msgspec.structs.asdict(Form())


@pytest.mark.parametrize("number", range(len(BLOCKS)))
@pytest.mark.usefixtures("engine")
def test_every_block_runs(number: int) -> None:
    """As it stands, in a module of its own."""
    assert run_block(number)


def test_the_store_of_the_page_is_right(engine: ModuleType) -> None:
    """The first example, over pages; once its engine swaps K's scales and V's, it is wrong."""
    paged = run_block(block_with('"paged"'))["paged"]
    assert isinstance(paged, StoreTarget)
    assert judged(paged, CASE).outcome == "pass"
    right = vars(engine)["reshape_and_cache"]
    vars(engine)["reshape_and_cache"] = lambda k, v, kp, vp, ks, vs, slots: right(k, v, kp, vp, vs, ks, slots)
    broken = run_block(block_with('"paged"'))["paged"]
    assert isinstance(broken, StoreTarget)
    assert judged(broken, CASE).outcome == "mismatch"


def test_latent_rows_are_right(engine: ModuleType) -> None:
    """Each part from where it lies; read with the latent's pitch, the rope part is wrong, and that is named."""
    latent = run_block(block_with('"latent"'))["latent"]
    assert isinstance(latent, StoreTarget)
    right = judged(latent, LATENT)
    assert (right.outcome, right.codes.compared) == ("pass", 8 * 576)
    store = vars(engine)["concat_and_cache_mla"]

    def shared(c: Tensor, pe: Tensor, pages: Tensor, slots: Tensor, scale: Tensor) -> None:
        store(c, pe.as_strided(pe.shape, c.stride(), pe.storage_offset()), pages, slots, scale)

    vars(engine)["concat_and_cache_mla"] = shared
    broken = run_block(block_with('"latent"'))["latent"]
    assert isinstance(broken, StoreTarget)
    wrong = judged(broken, LATENT)
    assert (wrong.outcome, wrong.codes.k_wrong > 0, wrong.codes.v_wrong > 0) == ("mismatch", False, True)


def test_the_matrix_of_latent_rows_is_one(tmp_path: Path) -> None:
    """As it stands in the page, a file that kvcheck reads, of cases that the example accepts."""
    (text,) = re.findall(r"^```toml\n(\[axes\]\n.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
    path = tmp_path / "latent.toml"
    path.write_text(text, encoding="utf-8")
    cases = load_cases((str(path),))
    assert len(cases) == 3 * 2 * 3 * 3
    assert {(case.heads, case.head_dim, case.head_dim_v) for case in cases} == {(1, 512, 64)}


@pytest.mark.usefixtures("engine")
def test_the_load_of_the_page_is_right() -> None:
    """The last example."""
    loaded = run_block(block_with("@load_target"))["loaded"]
    assert isinstance(loaded, LoadTarget)
    assert judged(loaded, Case(head_dim=64)).outcome == "pass"


def test_every_contract_of_the_page_has_an_arithmetic_here() -> None:
    """A new example must come with what it says."""
    assert set(contracts()) == {*COMPUTED, *GIVEN}


@pytest.mark.parametrize("name", [*COMPUTED, *GIVEN])
def test_a_contract_says_what_the_line_above_it_says(name: str) -> None:
    """A store in torch that computes so is right under it, all its codes compared."""
    contract = contracts()[name]
    verdict = judged(target_of(name, contract, COMPUTED.get(name, COMPUTED["divide"])), CASE)
    assert verdict.outcome == "pass", verdict
    assert verdict.codes.compared == 2 * 8 * 3 * 64


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("divide", "power"),
        ("reciprocal", "power"),
        ("power", "divide"),
        ("blocks", "divide"),
        ("int8", "divide"),
        ("added", "int8"),
    ],
)
def test_a_contract_is_not_kept_by_another_arithmetic(name: str, other: str) -> None:
    """Each of them can fail."""
    contract = contracts()[name]
    scaled = COMPUTED[other]
    if name == "blocks":
        scaled = lambda x: (x / 2, amax_of(x.reshape(*x.shape[:-1], -1, 32))[..., 0])  # noqa: E731
    assert isinstance(contract.scale, Computed)
    assert judged(target_of(name, contract, scaled), CASE).outcome == "mismatch"
