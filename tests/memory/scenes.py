"""Every form, contract, view and layout, in sizes small enough to look at every byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from hypothesis import strategies as st

from kvcheck.contract import Accepts, Computed, Contract, Form, Given, LoadContract
from kvcheck.matrix.axes import LAYOUTS
from kvcheck.memory.forms import Unplaceable
from kvcheck.memory.place import place
from kvcheck.schema import Case, Placement
from kvcheck.views import CACHE_VIEWS, VIEWS

CONTRACTS: tuple[Contract | LoadContract, ...] = (
    Contract(scale=Computed("token_head")),
    Contract(scale=Computed("token")),
    Contract(scale=Computed("block:4")),
    Contract(scale=Computed("token_head", dtype="fp16")),
    Contract(scale=Computed("token_head", dtype="ue8m0")),
    Contract(scale=Given("tensor")),
    Contract(scale=Given("head", dtype="bf16")),
    Contract(scale=Given("tensor", as_float=True)),
    Contract(scale=None),
    LoadContract(),
    LoadContract(scale="tensor", out="fp32"),
    LoadContract(scale="head", out="fp16"),
    LoadContract(scale=None),
)


Kind: TypeAlias = Literal["slots", "pages", "heads_pages", "packed", "fused"]
Scales: TypeAlias = Literal["sidecar", "none", "inline"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SCALES: tuple[Scales, ...] = get_args(Scales)


@dataclass(frozen=True)
class Scene:
    """What a placement is made of."""

    case: Case
    contract: Contract | LoadContract
    form: Form
    accepts: Accepts = Accepts()  # noqa: RUF009 - frozen
    cuda: bool = False

    def place(self) -> Placement:
        """Lay it out. Raises Unplaceable."""
        return place(self.case, self.contract, self.form, self.accepts, cuda=self.cuda)


@st.composite
def forms(draw: st.DrawFn) -> Form:
    """Any form that can be said."""
    kind: Kind = draw(st.sampled_from(KINDS))
    scales: Scales = draw(st.sampled_from(SCALES[:2] if kind in ("packed", "fused") else SCALES))
    return Form(
        kind=kind,
        page=draw(st.sampled_from([1, 2, 8, 16])),
        codes=draw(st.sampled_from(["uint8", "float8_e4m3fn", "int8"])),
        scales=scales,
        addressed_by=draw(st.sampled_from(["slots", "block_table"])),
        inline_pad=draw(st.sampled_from([0, 2, 4, 28])) if scales == "inline" else 0,
    )


@st.composite
def cases(draw: st.DrawFn, layouts: tuple[str, ...] = LAYOUTS) -> Case:
    """Cases whose every axis that moves memory is drawn."""
    view, cache_view = st.sampled_from(sorted(VIEWS)), st.sampled_from(sorted(CACHE_VIEWS))
    dim = st.sampled_from([1, 4, 8, 12, 20])
    return Case(
        k_view=draw(view),
        v_view=draw(view),
        k_cache=draw(st.just("dense") | cache_view),
        v_cache=draw(st.just("dense") | cache_view),
        tokens=draw(st.integers(0, 5)),
        extra_tokens=draw(st.integers(0, 2)),
        heads=draw(st.integers(1, 3)),
        head_dim=draw(dim),
        head_dim_v=draw(st.none() | dim),
        dtype=draw(st.sampled_from(["bf16", "fp16", "fp32"])),
        slots=draw(st.sampled_from(["ascending", "permuted", "negative_mixed", "duplicates", "last", "page_edges"])),
        slot_dtype=draw(st.sampled_from(["int32", "int64"])),
        slot_view=draw(st.sampled_from(["dense", "every_second"])),
        layers=draw(st.sampled_from([1, 1, 2, 3])),
        layout=draw(st.sampled_from(layouts)),
        order=draw(st.sampled_from(["kv", "vk"])),
        page=draw(st.none() | st.sampled_from([1, 4])),
        align=draw(st.sampled_from([2, 4, 8, 16, 64])),
    )


@st.composite
def scenes(draw: st.DrawFn, layouts: tuple[str, ...] = LAYOUTS) -> Scene:
    """A case for a target of some contract and form."""
    return Scene(draw(cases(layouts)), draw(st.sampled_from(CONTRACTS)), draw(forms()), cuda=draw(st.booleans()))


def placed(scene: Scene) -> Placement | None:
    """The placement, or None where there is none and a sentence says why."""
    try:
        return scene.place()
    except Unplaceable as error:
        reason = str(error)
    assert len(reason.split()) > 5, reason
    assert "\n" not in reason
    return None
