"""From a target's name to the target: built in, of an installed plug-in, or in a user's file."""

from __future__ import annotations

import difflib
import fnmatch
import importlib
import importlib.util
import pkgutil
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kvcheck.api import DECLARED, LoadTarget, StoreTarget, Target
from kvcheck.errors import KvcheckError, TargetError
from kvcheck.targets.engine import MissingEngineError
from kvcheck.targets.plugins import Plugin, plugins

#: kvcheck's own kernels by the names of their targets, and the modules they are in. Specimens are in a folder.
KERNELS = {
    "store": "kvcheck.kernels.store",
    "native-cast": "kvcheck.kernels.native_cast",
    **dict.fromkeys(
        (
            "store-given",
            "store-given-reciprocal",
            "store-given-multiplier",
            "store-given-head",
            "store-pages",
            "store-heads-pages",
            "store-packed",
            "store-fused",
            "store-inline",
            "store-blocks",
        ),
        "kvcheck.kernels.store_forms",
    ),
}
SPECIMENS = "kvcheck.kernels.specimens"
#: Adapters for engines' kernels, likewise.
ENGINES = {
    **dict.fromkeys(("conch", "conch-strict"), "kvcheck.targets.engines.conch"),
    **dict.fromkeys(
        ("freetoken", "freetoken-forks", "freetoken-forks-per-side", "freetoken-forks-int8"),
        "kvcheck.targets.engines.freetoken",
    ),
    **dict.fromkeys(
        (
            "vllm-per-tensor",
            "vllm-per-tensor-packed",
            "vllm-diffkv",
            "vllm-per-token-head",
            "vllm-per-token-head-inline",
            "vllm-per-token-head-int8",
        ),
        "kvcheck.targets.engines.vllm",
    ),
}
BUILTIN = {**KERNELS, **ENGINES}


@dataclass(frozen=True)
class Loaded:
    """A target, and the module it is declared in."""

    target: Target
    module: ModuleType


def names() -> tuple[str, ...]:
    """Every built-in target's name, without importing any."""
    folder = Path(__file__).parent.parent / "kernels" / "specimens"
    found = sorted(module.name for module in pkgutil.iter_modules([str(folder)]) if module.name[0] != "_")
    return (*KERNELS, *(f"specimen:{name.replace('_', '-')}" for name in found), *ENGINES)


def plugin(name: str) -> Plugin | None:
    """The plug-in of that name, or None. Built-in targets come first: a plug-in does not replace one."""
    return None if name in names() else next((found for found in plugins() if found.name == name), None)


def check_name(spec: str) -> None:
    """Raise TargetError, one line, unless `spec` is a built-in target, a plug-in's or an existing file's.

    Imports nothing.
    """
    path, _, _ = spec.partition("::")
    if path.endswith(".py"):
        if not Path(path).is_file():
            raise TargetError(f"target {spec!r}: there is no file {path}")
        return
    if not _matching(spec) and plugin(spec) is None:
        known = [*names(), *(found.name for found in plugins())]
        near = difflib.get_close_matches(spec, known, n=1)
        own = ", ".join(name for name in known if not name.startswith("specimen:"))
        hint = f"did you mean {near[0]!r}?" if near else f"expected FILE.py[::NAME] or one of: {own}, specimen:…"
        raise TargetError(f"target {spec!r} is unknown; {hint} (`kvcheck targets` lists all)")


def load(spec: str) -> tuple[Loaded, ...]:
    """Load the target of that name, every one of `specimen:*`, every target of `file.py`, or `file.py::name`.

    Raises TargetError; MissingEngineError for a file that imports what is not installed.
    """
    check_name(spec)
    path, _, wanted = spec.partition("::")
    if path.endswith(".py"):
        return _from_file(spec, Path(path), wanted)
    installed = plugin(spec)
    if installed is not None:
        return (_from_plugin(installed),)
    return tuple(_built_in(name) for name in _matching(spec))


def _matching(spec: str) -> tuple[str, ...]:
    """The built-in target of that name, or all whose names a pattern with `*`, `?` or `[…]` matches."""
    return tuple(name for name in names() if name == spec or fnmatch.fnmatchcase(name, spec))


def _built_in(name: str) -> Loaded:
    module = importlib.import_module(_module_of(name))
    found = _targets_in(module)
    if name not in found:
        raise TargetError(f"target {name!r}: {module.__name__} declares {', '.join(sorted(found)) or 'no target'}")
    return found[name]


def _from_plugin(installed: Plugin) -> Loaded:
    """The target of a plug-in. Raises TargetError, one line, whatever its code raises."""
    try:
        found = installed.load()
    except (Exception, SystemExit) as error:
        raise TargetError(f"target {installed.name!r}, {installed.where}: {_first_line(error)}") from error
    if isinstance(found, ModuleType):
        declared = _targets_in(found)
        if installed.name not in declared:
            has = ", ".join(sorted(declared)) or "no target"
            raise TargetError(f"target {installed.name!r}, {installed.where}: the module declares {has}")
        return declared[installed.name]
    if found.name != installed.name:
        raise TargetError(f"target {installed.name!r}, {installed.where}: the target there is named {found.name!r}")
    return Loaded(found, sys.modules[found.function.__module__])


def _first_line(error: BaseException) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"


def _module_of(name: str) -> str:
    kind, _, specimen = name.partition(":")
    return f"{SPECIMENS}.{specimen.replace('-', '_')}" if kind == "specimen" else BUILTIN[name]


def _targets_in(module: ModuleType) -> dict[str, Loaded]:
    """The targets a module declares, in order; those it imported from elsewhere are left out.

    A target whose function's name was used again, in a loop say, comes after those that the module still names.
    """
    found: dict[str, Loaded] = {}
    unnamed = [each for each in DECLARED if getattr(each.function, "__globals__", None) is vars(module)]
    for value in (*vars(module).values(), *unnamed):
        if isinstance(value, StoreTarget | LoadTarget) and value.function.__module__ == module.__name__:
            if value.name in found and found[value.name].target is not value:
                raise TargetError(f"{module.__name__} declares two targets {value.name!r}; expected a name for each")
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
        raise TargetError(f"{path}{_at(error, path)}: {error}") from error
    except ImportError as error:
        raise MissingEngineError(f"{path}: {type(error).__name__}: {error}") from error
    except Exception as error:
        raise TargetError(f"target {spec!r}: importing {path} raised {_where(error, path)}") from error
    return module


def _where(error: Exception, path: Path) -> str:
    """One line: the exception, and where in `path` it was raised."""
    return f"{type(error).__name__}{_at(error, path)}: {str(error).splitlines()[0] if str(error) else 'no message'}"


def _at(error: Exception, path: Path) -> str:
    """` at line N`, the last line of `path` that the exception's traceback passes through; empty for none."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    step = error.__traceback__
    while step is not None:
        if Path(step.tb_frame.f_code.co_filename) == path.resolve():
            line = step.tb_lineno
        step = step.tb_next
    return f" at line {line}" if line else ""
