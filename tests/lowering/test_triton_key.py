"""Triton's key, remembered: the one that Triton works out, and worked out anew whenever one of its files may differ."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvcheck.lowering import triton_key
from kvcheck.lowering.triton_key import remember_triton_key


class Installed:
    """A Triton of a few files, as each process that imports it sees it, and how often its key was worked out."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.worked_out, self._patch = root, 0, monkeypatch
        (root / "triton" / "_C").mkdir(parents=True)
        (root / "elsewhere").mkdir()
        (root / "elsewhere" / "driver.py").write_text("x = 1\n")
        (root / "triton" / "backend").symlink_to(root / "elsewhere")
        (root / "triton" / "backend" / "around").symlink_to(root / "triton")
        self.library = root / "triton" / "_C" / "libtriton.so"
        self.library.write_bytes(b"half a gigabyte")
        monkeypatch.setattr(triton_key, "_root", lambda: root / "triton")
        monkeypatch.setenv("XDG_CACHE_HOME", str(root / "cache"))

    def key(self) -> str:
        """What a new process takes for the key, of each that holds it."""
        cache, autotuner = SimpleNamespace(triton_key=self._key), SimpleNamespace(triton_key=self._key)
        self._patch.setitem(sys.modules, "triton.runtime.cache", cache)
        self._patch.setitem(sys.modules, "triton.runtime.autotuner", autotuner)
        self._patch.setitem(sys.modules, "triton.compiler.compiler", SimpleNamespace())
        remember_triton_key()
        remember_triton_key()
        assert cache.triton_key() == autotuner.triton_key()
        return str(cache.triton_key())

    def _key(self) -> str:
        self.worked_out += 1
        return f"3.7.1-{self.library.read_bytes().hex()}"

    @property
    def kept(self) -> list[Path]:
        """The files that keys are kept in, and whatever else lies there."""
        return sorted((self.root / "cache" / "kvcheck").iterdir())


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """It, with nothing remembered."""
    return Installed(tmp_path, monkeypatch)


def test_it_is_worked_out_once(installed: Installed) -> None:
    """The next process takes it from the file of the first, and no unfinished file is left."""
    assert installed.key() == installed.key() == f"3.7.1-{b'half a gigabyte'.hex()}"
    assert installed.worked_out == 1
    assert [len(path.name) for path in installed.kept] == [len("triton-key-") + 32]


def _same_size_and_time(installed: Installed) -> None:
    times = installed.library.stat()
    installed.library.write_bytes(b"half a gigabit!")
    os.utime(installed.library, ns=(times.st_atime_ns, times.st_mtime_ns))


def _in_a_folder_that_is_a_link(installed: Installed) -> None:
    (installed.root / "elsewhere" / "driver.py").write_text("x = 2\n")


def _another_file(installed: Installed) -> None:
    (installed.root / "elsewhere" / "compiler.py").write_text("")


def _a_file_less(installed: Installed) -> None:
    (installed.root / "elsewhere" / "driver.py").unlink()


def _damaged(installed: Installed) -> None:
    (file,) = installed.kept
    file.write_text(file.read_text().replace("3.7.1", "3.7.2"))


def _emptied(installed: Installed) -> None:
    (file,) = installed.kept
    file.write_bytes(b"")


def _no_text(installed: Installed) -> None:
    (file,) = installed.kept
    file.write_bytes(b"\xff\n")


@pytest.mark.parametrize(
    "change",
    [
        _same_size_and_time, _in_a_folder_that_is_a_link, _another_file, _a_file_less, _damaged, _emptied, _no_text,
    ],
)  # fmt: skip
def test_whatever_has_changed_it_is_worked_out_anew(installed: Installed, change: Callable[[Installed], None]) -> None:
    """Once more, and then remembered: a kernel that an older compiler made must never be taken for this one's."""
    installed.key()
    change(installed)
    assert installed.key() == installed.key() == f"3.7.1-{installed.library.read_bytes().hex()}"
    assert installed.worked_out == 2


def test_where_nothing_can_be_kept_triton_works_it_out(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own function stays where it is."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/self")
    installed.key()
    assert getattr(sys.modules["triton.runtime.cache"], "triton_key") == installed._key  # noqa: B009 - it is no module


def test_nothing_is_imported_to_find_it_out(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no Triton is imported there is nothing to remember."""
    for name in triton_key._MODULES:
        monkeypatch.setitem(sys.modules, name, None)
    remember_triton_key()
    assert not (installed.root / "cache").exists()


def test_without_a_triton_its_folder_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is caught where it is asked for."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(OSError, match="triton is no folder"):
        triton_key._root()


def test_it_is_the_key_that_the_installed_triton_works_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At first, and as a second process takes it from the file."""
    from triton.runtime import cache  # noqa: PLC0415 - slow to import

    # As Triton has it: an earlier test of this process may have had it remembered.
    spec = importlib.util.find_spec("triton.runtime.cache")
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    own = fresh.triton_key
    right = own()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in triton_key._MODULES:
        if (holder := sys.modules.get(name)) is not None and hasattr(holder, "triton_key"):
            monkeypatch.setattr(holder, "triton_key", own)
    remember_triton_key()
    assert cache.triton_key() == right
    for name in triton_key._MODULES:
        if (holder := sys.modules.get(name)) is not None and hasattr(holder, "triton_key"):
            monkeypatch.setattr(holder, "triton_key", lambda: "of nobody's")
    remember_triton_key()
    assert cache.triton_key() == right
