"""The shipped matrices: what each promises of itself."""

from __future__ import annotations

import pytest

from kvcheck.contract import Accepts, Computed, Contract, Form
from kvcheck.matrix.axes import AXES
from kvcheck.matrix.document import read
from kvcheck.matrix.files import find
from kvcheck.matrix.ids import axes_of, case_id
from kvcheck.matrix.load import load_cases
from kvcheck.memory.place import place
from kvcheck.targets.limits import outside_limits
from kvcheck.views import VIEWS

#: The matrices for kvcheck's own kernel, and the fewest and most cases of each.
SIZES = {
    "seed": (48, 48), "default": (200, 600), "stride": (288, 350), "magnitude": (400, 700), "layout": (150, 300),
    "full": (1000, 1500), "memory": (7, 7),
}  # fmt: skip

OWN = Contract(scale=Computed("token_head"))

#: Bytes that a case may take at most.
LARGEST = 400 << 20


@pytest.mark.parametrize("name", SIZES)
def test_a_matrix_has_as_many_cases_as_it_should(name: str) -> None:
    """Enough to see what it is for, and no more than can be run."""
    least, most = SIZES[name]
    assert least <= len(load_cases([name])) <= most


@pytest.mark.parametrize("name", SIZES)
def test_every_case_can_be_placed_for_kvchecks_own_kernel(name: str) -> None:
    """None is unsupported, and none takes more memory than a small machine has."""
    for case in load_cases([name]):
        placement = place(case, OWN, Form(), Accepts(), cuda=False)
        assert outside_limits(case, OWN, Accepts(), Form(), placement) is None
        assert sum(placement.allocations) < LARGEST


@pytest.mark.parametrize("name", SIZES)
def test_a_matrix_begins_by_saying_what_it_is_for(name: str) -> None:
    """A sentence for whoever opens the file, before its first table."""
    first = find(name).read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert first[2].isupper()


def test_together_they_have_two_thousand_cases() -> None:
    """Of distinct axes: no two of them differ in their seed alone. `memory` may repeat some of them."""
    cases = load_cases([name for name in SIZES if name != "memory"])
    assert len(cases) >= 2000
    assert {case.seed for case in cases} == {0}
    assert len({case_id(case) for case in cases}) == len(cases)


def test_stride_is_every_pair_of_views() -> None:
    """In every layout of its own."""
    cases = load_cases(["stride"])
    for layout in ("arena", "pooled"):
        found = {(case.k_view, case.v_view) for case in cases if case.layout == layout}
        assert found >= {(k, v) for k in VIEWS for v in VIEWS}


def test_full_sweeps_every_axis_with_more_than_one_value_for_it() -> None:
    """All but those that are the target's (its form, its page), those of one value, and the seed.

    Layers and graphs come in cases of their own, which another axis would have made others.
    """
    full = read(find("full"))
    named = set(full.axes).union(*full.cases)
    assert set(AXES) - named == {"form", "page", "requests", "seed"}
    assert named - set(full.axes) == {"layers", "launch"}


def test_full_has_whatever_the_others_have() -> None:
    """Each value of each axis of default, magnitude and layout occurs in full; tokens up to 1024."""
    full: dict[str, set[object]] = {name: set() for name in AXES}
    for case in load_cases(["full"]):
        for name, value in {**axes_of(case), "head_dim_v": case.dim_v}.items():
            full[name].add(value)
    for case in load_cases(["default", "magnitude", "layout"]):
        for name, value in axes_of(case).items():
            assert value in full[name], (name, value)
    assert {0, 1, 2, 3, 8, 17, 129, 1024} == full["tokens"]
