"""From a target's name to the target."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvcheck.errors import TargetError
from kvcheck.targets.engine import MissingEngineError
from kvcheck.targets.load import check_name, load, names

from .conftest import Write

TWO = """
    from kvcheck import Cache, Computed, Contract, LoadContract, load_target, store_target
    from one import first

    @store_target("z-store", contract=Contract(scale=Computed("token_head")))
    def storing(k, v, slots, cache): pass

    @load_target("a-load", contract=LoadContract())
    def loading(slots, cache, out): pass
"""
ONE = """
    from kvcheck import Computed, Contract, store_target

    @store_target("first", contract=Contract(scale=Computed("token_head")))
    def first(k, v, slots, cache): pass
"""


def test_builtin_names_are_the_default_and_the_specimens() -> None:
    """A specimen's name is its file's, with dashes."""
    assert names()[0] == "store"
    assert "specimen:shared-pitch" in names()
    for name in names():
        check_name(name)


@pytest.mark.parametrize("name", ["nothing", "", "a-folder", "kvcheck.kernels"])
def test_an_unknown_name_lists_what_there_is(name: str) -> None:
    """One line with every built-in name but the specimens', and how a file is named."""
    listed = (
        r"is unknown; expected FILE\.py\[::NAME\] or one of: store, .*, specimen:… \(`kvcheck targets` lists all\)$"
    )
    with pytest.raises(TargetError, match=listed) as raised:
        check_name(name)
    assert str(raised.value).count("specimen:") == 1


@pytest.mark.parametrize(
    ("name", "near"),
    [("Store", "store"), ("specimen:shared-pich", "specimen:shared-pitch"), ("freetokn", "freetoken")],
)
def test_a_misspelt_name_is_told_the_nearest(name: str, near: str) -> None:
    """Not sixty names."""
    with pytest.raises(TargetError) as raised:
        check_name(name)
    assert str(raised.value) == (f"target {name!r} is unknown; did you mean {near!r}? (`kvcheck targets` lists all)")


def test_every_target_of_a_file_is_loaded_in_order(write: Write) -> None:
    """Those of its own, as they are written; one that it imported from a neighbour is not its own."""
    write("one.py", ONE)
    found = load(str(write("two.py", TWO)))
    assert [(type(one.target).__name__, one.target.name) for one in found] == [
        ("StoreTarget", "z-store"),
        ("LoadTarget", "a-load"),
    ]


LOOP = """
    from kvcheck import Computed, Contract, store_target

    for maximum in (240.0, 448.0):
        @store_target(f"maximum-{maximum:.0f}", contract=Contract(scale=Computed("token_head", maximum=maximum)))
        def storing(k, v, slots, cache): pass
"""


def test_targets_whose_functions_share_a_name_are_all_there(write: Write) -> None:
    """A loop leaves the module one function, and had silently left one target."""
    found = load(str(write("loop.py", LOOP)))
    assert sorted(one.target.name for one in found) == ["maximum-240", "maximum-448"]
    (again,) = load(f"{write('loop.py', ONE)}")
    assert again.target.name == "first"


@pytest.mark.parametrize(("wanted", "name"), [("a-load", "a-load"), ("loading", "a-load"), ("storing", "z-store")])
def test_one_target_of_a_file_is_chosen_by_its_name_or_its_functions(write: Write, wanted: str, name: str) -> None:
    """`file.py::NAME` takes the one that is printed in reports, and the one that stands in the file."""
    write("one.py", ONE)
    (found,) = load(f"{write('two.py', TWO)}::{wanted}")
    assert found.target.name == name


def test_a_relative_path_is_one_too(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is relative to where the command runs."""
    monkeypatch.chdir(write("one.py", ONE).parent)
    (found,) = load("one.py")
    assert found.target.name == "first"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1", "declares none"),
        ("x = (", r"raised SyntaxError at line 1"),
        ("\n\n1 / 0", r"raised ZeroDivisionError at line 3: division by zero"),
        ("raise ValueError", r"raised ValueError at line 1: no message"),
        ("import json\njson.loads('{')", r"raised JSONDecodeError at line 2"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(write: Write, text: str, says: str) -> None:
    """One line with the exception and the file's own line, even where a library raised."""
    with pytest.raises(TargetError, match=says) as raised:
        load(str(write("broken.py", text)))
    assert "\n" not in str(raised.value)
    assert "broken.py" in str(raised.value)


def test_a_name_that_a_file_has_not_lists_what_it_has(write: Write) -> None:
    """The names are those of the decorators."""
    with pytest.raises(TargetError, match=r"has no target 'three'; it has first"):
        load(f"{write('one.py', ONE)}::three")


@pytest.mark.parametrize("text", ["import no_such_engine", "from kvcheck import no_such_name"])
def test_an_engine_that_is_not_installed_is_told_apart(write: Write, text: str) -> None:
    """An import that fails is neither a mistake in the declaration nor a target that does not exist."""
    with pytest.raises(MissingEngineError, match="no_such_"):
        load(str(write("missing.py", text)))


def test_a_missing_file_is_not_imported(tmp_path: Path) -> None:
    """Nor is a folder of that name."""
    os.mkdir(tmp_path / "folder.py")  # noqa: PTH102 - a folder with a file's name
    for name in ("absent.py", "folder.py", "absent.py::x"):
        with pytest.raises(TargetError, match="there is no file"):
            load(str(tmp_path / name))
