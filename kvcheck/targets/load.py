"""From a target's name to the target: built in, or in a user's file."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kvcheck.api import LoadTarget, StoreTarget, Target
from kvcheck.errors import KvcheckError, TargetError

#: Built-in targets by name, and the modules they are in. Specimens are found in their folder.
BUILTIN = {"store": "kvcheck.kernels.store", "native-cast": "kvcheck.kernels.native_cast"}
SPECIMENS = "kvcheck.kernels.specimens"


@dataclass(frozen=True)
class Loaded:
    """A target, and the module it is declared in."""

    target: Target
    module: ModuleType


def names() -> tuple[str, ...]:
    """Every built-in target's name, without importing any."""
    folder = Path(__file__).parent.parent / "kernels" / "specimens"
    found = sorted(module.name for module in pkgutil.iter_modules([str(folder)]))
    return (*BUILTIN, *(f"specimen:{name.replace('_', '-')}" for name in found))


def check_name(spec: str) -> None:
    """Raise TargetError, one line, unless `spec` is a built-in target or a file that exists. Imports nothing."""
    path, _, _ = spec.partition("::")
    if path.endswith(".py"):
        if not Path(path).is_file():
            raise TargetError(f"target {spec!r}: there is no file {path}")
        return
    if spec not in names():
        raise TargetError(f"target {spec!r} is unknown; expected FILE.py[::NAME] or one of: {', '.join(names())}")


def load(spec: str) -> tuple[Loaded, ...]:
    """Load the built-in target `spec`, every target of `file.py`, or `file.py::name`. Raises TargetError."""
    check_name(spec)
    path, _, wanted = spec.partition("::")
    if path.endswith(".py"):
        return _from_file(spec, Path(path), wanted)
    module = importlib.import_module(_module_of(spec))
    found = _targets_in(module)
    if spec not in found:
        raise TargetError(f"target {spec!r}: {module.__name__} declares {', '.join(sorted(found)) or 'no target'}")
    return (found[spec],)


def _module_of(name: str) -> str:
    kind, _, specimen = name.partition(":")
    return f"{SPECIMENS}.{specimen.replace('-', '_')}" if kind == "specimen" else BUILTIN[name]


def _targets_in(module: ModuleType) -> dict[str, Loaded]:
    """The targets a module declares, in order; those it imported from elsewhere are left out."""
    found: dict[str, Loaded] = {}
    for value in vars(module).values():
        if isinstance(value, StoreTarget | LoadTarget) and value.function.__module__ == module.__name__:
            found[value.name] = Loaded(value, module)
    return found


def _from_file(spec: str, path: Path, wanted: str) -> tuple[Loaded, ...]:
    module = _import_file(spec, path)
    found = _targets_in(module)
    by_function = {loaded.target.function.__name__: loaded for loaded in found.values()}
    if not found:
        raise TargetError(f"target {spec!r}: {path} declares none; expected functions under @kvcheck.store_target")
    if not wanted:
        return tuple(found.values())
    chosen = found.get(wanted) or by_function.get(wanted)
    if chosen is None:
        raise TargetError(f"target {spec!r}: {path} has no target {wanted!r}; it has {', '.join(found)}")
    return (chosen,)


def _import_file(spec: str, path: Path) -> ModuleType:
    """Import a user's file under its own stem, with its folder on the path as `python FILE` would have it."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = f"kvcheck_target_{path.stem}"
    module_spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    try:
        module_spec.loader.exec_module(module)
    except KvcheckError as error:
        raise TargetError(f"{path}: {error}") from error
    except ImportError as error:
        raise MissingEngineError(f"{path}: {type(error).__name__}: {error}") from error
    except Exception as error:
        raise TargetError(f"target {spec!r}: importing {path} raised {_where(error, path)}") from error
    return module


class MissingEngineError(KvcheckError):
    """A target's file imports something that is not installed: its cases are `unsupported`, with the reason."""


def _where(error: Exception, path: Path) -> str:
    """One line: the exception, and the last line of `path` that its traceback passes through."""
    line = None
    step = error.__traceback__
    while step is not None:
        if Path(step.tb_frame.f_code.co_filename) == path.resolve():
            line = step.tb_lineno
        step = step.tb_next
    if isinstance(error, SyntaxError):
        line = error.lineno
    at = f" at line {line}" if line else ""
    return f"{type(error).__name__}{at}: {str(error).splitlines()[0] if str(error) else 'no message'}"
