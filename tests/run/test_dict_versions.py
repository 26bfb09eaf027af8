"""A dictionary's version, read from CPython's own memory, tells that it has changed; or it is known not to tell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from kvcheck.run import dict_versions
from kvcheck.run.dict_versions import Versions, members_of, told


class _Sample:
    def method(self) -> None:
        """A method to replace."""


def test_this_python_tells() -> None:
    """On the versions that were tried; on later ones every look is a full one, which is slower and as right."""
    assert told() or sys.version_info >= (3, 14)


@pytest.mark.skipif(not told(), reason="this Python has no versions of dictionaries")
@pytest.mark.parametrize(
    "change",
    [
        lambda module: setattr(module, "member", max),
        lambda module: setattr(module, "another", min),
        lambda module: delattr(module, "member"),
        lambda module: module.__dict__.update(member=max),
        lambda module: exec("member = max", module.__dict__),  # noqa: S102 - as code in the module does
    ],
)
def test_a_change_is_seen(change: Callable[[ModuleType], object]) -> None:
    """By attribute, by key, by code in the module; a look is no change."""
    module = ModuleType("sample")
    vars(module)["member"] = min
    versions = Versions([{}, vars(module)])
    assert getattr(module, "member", None) is min
    assert versions.unchanged()
    change(module)
    assert not versions.unchanged()


@pytest.mark.skipif(not told(), reason="this Python has no versions of dictionaries")
def test_a_class_is_seen_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its attributes lie behind a proxy."""
    versions = Versions([members_of(_Sample)])
    _Sample().method()
    assert versions.unchanged()
    monkeypatch.setattr(_Sample, "method", lambda _: None)
    assert not versions.unchanged()


@pytest.mark.parametrize("behind", [0, object.__basicsize__])
def test_what_is_no_version_is_not_trusted(monkeypatch: pytest.MonkeyPatch, behind: int) -> None:
    """The count of references, or the length, at the place: some changes would go unseen, so nothing is told."""
    monkeypatch.setattr(dict_versions, "_BEHIND", behind)
    assert not told()
    assert not Versions([{}]).unchanged()


def test_another_python_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its objects are laid out otherwise."""
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    assert not told()
