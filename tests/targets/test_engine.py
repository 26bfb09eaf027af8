"""An engine of the user's: found, imported whole or one file of it, and known by its version and files."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from kvcheck.targets.engine import ENGINE_PATH, Engine, MissingEngineError, add_engine_roots, engine_roots
from kvcheck.targets.identity import engine_files, path_of, version_of

from .conftest import Write

STORE = """
    from big_engine.platforms import is_cuda
    from big_engine.ops.helper import TWO

    def store():
        from big_engine.late import three
        return is_cuda() + TWO + three()
"""


@pytest.fixture
def root(write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with an engine whose own package cannot be imported here."""
    write("big_engine/__init__.py", "raise RuntimeError('no server here')")
    write("big_engine/ops/__init__.py", "raise RuntimeError('nor here')")
    write("big_engine/ops/helper.py", "TWO = 2")
    write("big_engine/late.py", "def three(): return 3")
    write("big_engine-4.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: big-engine\nVersion: 4.5\n")
    folder = write("big_engine/ops/store.py", STORE).parents[2]
    monkeypatch.syspath_prepend(str(folder))
    return folder


def alone(*also: str) -> Engine:
    """The engine's one file, with a stub in place of what it needs of the rest."""
    stubs = {"big_engine.platforms": {"is_cuda": lambda: 1}}
    return Engine(
        "big_engine.ops.store", distribution="big-engine", get="pip install it", stubs=lambda: stubs, also=also
    )


def whole() -> Engine:
    """The engine as Python imports it."""
    return Engine("big_engine.ops.store", distribution="big-engine", get="pip install it")


def test_an_engine_that_is_here_and_needs_another_package_is_said_to_load_alone(root: Path) -> None:
    """To get the engine once more would help nobody."""
    (root / "big_engine/__init__.py").write_text("import no_such_package", encoding="utf-8")
    with pytest.raises(MissingEngineError, match="another package: with stubs= this file alone") as raised:
        whole().require()
    assert "No module named 'no_such_package'" in str(raised.value)


@pytest.mark.usefixtures("root")
def test_one_file_is_imported_without_its_packages() -> None:
    """Its own neighbours are real, what is stubbed is the stub, and what it imports when called is there too."""
    engine = alone("big_engine.late")
    with engine.use() as module:
        assert module.store() == 6
    assert [name for name in sys.modules if name.startswith("big_engine")] == []


def test_it_is_known_by_its_version_and_files(root: Path) -> None:
    """Stubs are no files of the engine's."""
    engine = alone("big_engine.late")
    assert (engine.find(), engine.path(), engine.files()) == (root / "big_engine/ops/store.py", None, {})
    engine.require()
    engine.require()
    assert engine.version() == "4.5"
    assert engine.path() == root / "big_engine/ops/store.py"
    assert set(engine.files()) == {"big_engine.ops.store", "big_engine.ops.helper", "big_engine.late"}


def test_a_report_names_each_file_with_its_hash(root: Path) -> None:
    """What a maintainer holds against a checkout; version and path are the engine's, not the adapter's."""
    module = ModuleType("adapter")
    module.__file__ = str(root / "adapter.py")
    vars(module)["ENGINE"] = alone()
    assert engine_files(module) == {}
    assert path_of(module) == module.__file__
    vars(module)["ENGINE"].require()
    text = (root / "big_engine/ops/store.py").read_bytes()
    assert engine_files(module)["big_engine.ops.store"] == hashlib.sha256(text).hexdigest()
    assert version_of(module) == "4.5"
    assert path_of(module) == str(root / "big_engine/ops/store.py")


@pytest.mark.usefixtures("root")
def test_what_was_imported_before_comes_back() -> None:
    """A process may have the engine's own package in use."""
    other = ModuleType("big_engine")
    other.__spec__ = ModuleSpec("big_engine", None)
    sys.modules["big_engine"] = other
    with alone("big_engine.late").use():
        assert sys.modules["big_engine"] is not other
    assert sys.modules["big_engine"] is other
    del sys.modules["big_engine"]


@pytest.mark.usefixtures("root")
def test_an_engine_that_cannot_be_imported_says_why_each_time() -> None:
    """One line, with how to get it; it is tried once."""
    engine = whole()
    for _ in range(2):
        with pytest.raises(MissingEngineError, match=r"RuntimeError: no server here; pip install it\Z"):
            engine.require()
    with pytest.raises(MissingEngineError), engine.use():
        pass


def test_a_whole_engine_is_imported_as_python_does(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """And stays imported."""
    write("big_engine/__init__.py", "")
    write("big_engine/ops/__init__.py", "")
    folder = write("big_engine/ops/store.py", "ONE = 1").parents[2]
    monkeypatch.syspath_prepend(str(folder))
    engine = whole()
    with engine.use() as module:
        assert module.ONE == 1
    assert set(engine.files()) == {"big_engine", "big_engine.ops", "big_engine.ops.store"}
    assert engine.version() is None


def test_an_engine_that_is_nowhere_has_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a file nor a version; to need it is an error that names the file."""
    monkeypatch.setattr(sys, "path", [])
    engine = alone()
    assert (engine.find(), engine.path(), engine.version(), engine.files()) == (None, None, None, {})
    with pytest.raises(MissingEngineError, match=r"no big_engine/ops/store\.py in any place"):
        engine.require()


def test_folders_of_engines_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout's own, then where it may keep its packages; what is no folder is left out."""
    (tmp_path / "one" / "python").mkdir(parents=True)
    (tmp_path / "two" / "src").mkdir(parents=True)
    named = os.pathsep.join(str(tmp_path / name) for name in ("one", "two", "none"))
    expected = [str(tmp_path / name) for name in ("one", "one/python", "two", "two/src")]
    assert engine_roots(named) == expected
    assert engine_roots(None) == engine_roots("") == []
    monkeypatch.setenv(ENGINE_PATH, named)
    add_engine_roots()
    assert sys.path[: len(expected)] == expected
