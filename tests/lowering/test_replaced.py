"""A replaced function can be told from others, stands for the first one it replaced, and gives way to it again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kvcheck.lowering import replaced


def test_what_was_put_twice_gives_back_the_first() -> None:
    """The second stands for the same as the first, not for the first."""

    def own() -> str:
        return "own"

    owner = SimpleNamespace(name=own)
    for says in ("once", "twice"):
        replaced.put(owner, "name", lambda says=says: says)
        assert owner.name() == says
        assert replaced.is_replaced(owner.name)
        assert replaced.original(owner.name) is own
    replaced.restore(owner, "name")
    assert owner.name is own
    assert not replaced.is_replaced(own)
    assert replaced.original(own) is own


def test_what_is_not_replaced_is_left_alone() -> None:
    """Another's function, and a name that the owner lacks."""
    owner = SimpleNamespace(name=len)
    replaced.restore(owner, "name")
    replaced.restore(owner, "other")
    assert vars(owner) == {"name": len}


def test_a_name_that_the_owner_lacks_cannot_be_put() -> None:
    """A version of the library without it is for the caller to see."""
    with pytest.raises(KeyError):
        replaced.put(SimpleNamespace(), "name", lambda: None)
