"""An engine that the user has installed, or has the source of: found, imported, and known by its version and files.

kvcheck ships no engine's code. An adapter's module imports without the engine; the engine is imported when its first
target is prepared. What cannot be imported makes cases `unsupported`, with the reason.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from kvcheck.errors import KvcheckError

#: The environment variable that carries `--engine-path` to the processes that import engines.
ENGINE_PATH = "KVCHECK_ENGINE_PATH"

#: Where a checkout may keep its packages.
INSIDE = ("", "python", "src")

#: Modules that stand in for an engine's own while one file of it is imported: by name, what each holds.
Stubs: TypeAlias = Mapping[str, Mapping[str, object]]


class MissingEngineError(KvcheckError):
    """What a target is made of cannot be imported here: its cases are `unsupported`, with this sentence."""


class Engine:
    """A module of an engine's, imported from the user's own copy.

    With `stubs`, the module is loaded without its packages' own code, which may need a GPU, a server's dependencies or
    minutes: its packages are empty while it is imported, but for the stubs, and leave `sys.modules` afterwards.
    """

    def __init__(
        self,
        module: str,
        *,
        distribution: str,
        get: str,
        stubs: Callable[[], Stubs] | None = None,
        also: tuple[str, ...] = (),
    ) -> None:
        """Name a module, the distribution that has it, and, in a few words, where to get it. Imports nothing.

        `also` lists further modules of the engine that the first imports only when it is called.
        """
        self.name = module
        self.package = module.partition(".")[0]
        self.distribution = distribution
        self.get = get
        self._stubs = stubs
        self._also = also
        self.alone = stubs is not None
        self._loaded: dict[str, ModuleType] = {}
        self._error: str | None = None

    def require(self) -> None:
        """Import the module, once. Raises MissingEngineError, one line, where it cannot be."""
        if self._error is not None:
            raise MissingEngineError(self._error)
        if self._loaded:
            return
        try:
            self._load()
        except Exception as error:
            self._error = f"{self.name} cannot be imported: {_line(error)}; {self._advice(error)}"
            raise MissingEngineError(self._error) from error

    def _advice(self, error: Exception) -> str:
        """What to do about it: get the engine, or, where it is here and needs others to import, its file alone."""
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or self.alone or _of(self.package, missing):
            return self.get
        return f"that is a module of another package: with stubs= this file alone is imported ({self.get})"

    @contextlib.contextmanager
    def use(self) -> Iterator[ModuleType]:
        """The module, with the engine's other modules in place for what it imports when called."""
        self.require()
        if self._stubs is None:
            yield self._loaded[self.name]
            return
        with _only(self.package, self._loaded):
            yield self._loaded[self.name]

    def files(self) -> dict[str, Path]:
        """The files of the engine that were imported, by their modules' names; none where it is missing."""
        found = self._loaded
        if found and self._stubs is None:
            found = {name: module for name, module in sys.modules.items() if _of(self.package, name)}
        paths = {name: getattr(module, "__file__", None) for name, module in sorted(found.items())}
        return {name: Path(path) for name, path in paths.items() if path is not None}

    def find(self) -> Path | None:
        """The file that would be imported for the module, or None. Imports nothing."""
        try:
            return self._home() / self._inside
        except ModuleNotFoundError:
            return None

    def path(self) -> Path | None:
        """The file of the module, or None where it is missing."""
        file = getattr(self._loaded.get(self.name), "__file__", None)
        return None if file is None else Path(file)

    def version(self) -> str | None:
        """The version of the distribution that the module is from; None for a bare checkout, or where it is missing."""
        path = self.path() or self.find()
        if path is None:
            return None
        root = path.parents[self.name.count(".")]
        for found in metadata.distributions(name=self.distribution, path=[str(root)]):
            return found.version
        return None

    def _load(self) -> None:
        if self._stubs is None:
            self._loaded = {self.name: importlib.import_module(self.name)}
            return
        stubs = {name: _stub(name, values) for name, values in self._stubs().items()}
        packages = {name: _package(name, self._folders(name)) for name in _parents((self.name, *self._also, *stubs))}
        with _only(self.package, {**packages, **stubs}):
            for name in (self.name, *self._also):
                importlib.import_module(name)
            self._loaded = {name: module for name, module in sys.modules.items() if _of(self.package, name)}

    def _folders(self, package: str) -> list[str]:
        """The folders of a package, the first copy of the engine that has the module alone."""
        inside = package.split(".")[1:]
        return [str(self._home().joinpath(*inside))]

    @property
    def _inside(self) -> Path:
        """The module's file, below its top-level package."""
        return Path(*self.name.split(".")[1:]).with_suffix(".py")

    def _home(self) -> Path:
        """The folder of the top-level package. Raises ModuleNotFoundError."""
        wanted = self._inside
        homes = [Path(folder) / self.package for folder in sys.path]
        spec = importlib.util.find_spec(self.package)  # an editable installation may lie elsewhere
        homes += [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
        for home in homes:
            if (home / wanted).is_file():
                return home
        raise ModuleNotFoundError(f"no {self.package}/{wanted} in any place that Python imports from")


def engine_roots(folders: str | None) -> list[str]:
    """The folders to import from for what `--engine-path` named, in order, joined as in PATH."""
    named = [Path(folder) for folder in (folders or "").split(os.pathsep) if folder]
    roots = [folder / inside for folder in named for inside in INSIDE]
    return [str(root.resolve()) for root in roots if root.is_dir()]


def add_engine_roots() -> None:
    """Let this process import from the folders that `--engine-path` named, before all others."""
    sys.path[:0] = engine_roots(os.environ.get(ENGINE_PATH))


def _line(error: Exception) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"


def _of(package: str, name: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _parents(names: tuple[str, ...]) -> tuple[str, ...]:
    """Every package that the modules lie in, outermost first."""
    found = {".".join(parts[:count]) for parts in (name.split(".") for name in names) for count in range(1, len(parts))}
    return tuple(sorted(found))


def _stub(name: str, values: Mapping[str, object]) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(values)
    return module


def _package(name: str, folders: list[str]) -> ModuleType:
    """An empty package whose modules lie in `folders`."""
    return _stub(name, {"__path__": folders})


@contextlib.contextmanager
def _only(package: str, modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Make `modules` the only ones of a package that are imported; afterwards all is as it was."""
    before = {name: module for name, module in sys.modules.items() if _of(package, name)}
    try:
        for name in before:
            del sys.modules[name]
        sys.modules.update(modules)
        yield
    finally:
        for name in [name for name in sys.modules if _of(package, name)]:
            del sys.modules[name]
        sys.modules.update(before)
