"""What a target's kernels are, byte for byte: a hash of its source and of all that it calls.

A pass must never outlive the code it was earned by, so the hash errs on the wide side: it covers the whole text of
the target's module and of every module that one imports, directly or not, but for Python's own library and for the
frameworks, whose versions the report carries. A built library is hashed as the file it is.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import sys
from functools import lru_cache
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from kvcheck.targets.engine import Engine

#: Packages whose version stands in the report's environment instead of their source in the hash.
FRAMEWORKS = frozenset({"torch", "triton", "numpy", "msgspec", "kvcheck"})
#: The parts of kvcheck that are kernels, and so part of what is tested.
OWN_KERNELS = "kvcheck.kernels"


def kernels_sha256(module: ModuleType) -> str:
    """The hex sha256 over the sources that a target's module reaches, its own first, named without their paths."""
    digest = hashlib.sha256()
    for name, path in sorted(_reachable(module).items()):
        data = path.read_bytes()
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def uses_triton(module: ModuleType) -> bool:
    """Whether any module that a target reaches, its own included, imports triton."""
    return any("triton" in _imports(path, name)[1] for name, path in _reachable(module).items())


def version_of(module: ModuleType) -> str | None:
    """The version of the engine that a target's module names, or of the package that the module is part of."""
    for engine in engines_of(module):
        return engine.version()
    package = module.__name__.partition(".")[0]
    if package in FRAMEWORKS:
        return None
    names = metadata.packages_distributions().get(package, ()) if "." in module.__name__ else ()
    return metadata.version(names[0]) if names else None


def path_of(module: ModuleType) -> str | None:
    """The engine's own file that a target's module names, where it could be imported; else the module's."""
    for engine in engines_of(module):
        found = engine.path()
        if found is not None:
            return str(found)
    return getattr(module, "__file__", None)


def engine_files(module: ModuleType) -> dict[str, str]:
    """The hex sha256 of every imported file of the engines that a target's module names, by its module's name."""
    found = {name: path for engine in engines_of(module) for name, path in engine.files().items()}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sorted(found.items())}


def engines_of(module: ModuleType) -> tuple[Engine, ...]:
    """The engines that a target's module names."""
    return tuple(value for value in vars(module).values() if isinstance(value, Engine))


def _reachable(module: ModuleType) -> dict[str, Path]:
    """Every module to hash, by a name that does not depend on where the file lies."""
    first = getattr(module, "__file__", None)
    if first is None:
        return {}
    found = {f"{Path(first).stem} (target)": Path(first)}
    alone = set()
    for engine in engines_of(module):
        found.update(engine.files())
        alone |= {engine.package} if engine.alone else set()
    queue = [(name if index else module.__name__, path) for index, (name, path) in enumerate(found.items())]
    while queue:
        importer, path = queue.pop()
        modules, _ = _imports(path, importer)
        for name in sorted(modules):
            if name.partition(".")[0] in alone:
                continue  # of such an engine no other modules are loaded than those it says itself
            origin = _origin(name)
            if origin is not None and name not in found and origin not in found.values():
                found[name] = origin
                queue.append((name, origin))
    return found


def _imports(path: Path, importer: str) -> tuple[frozenset[str], frozenset[str]]:
    """The modules a file may import anywhere in it, frameworks left out; and the top-level names of all of them."""
    if path.suffix != ".py":
        return frozenset(), frozenset()
    return _imported(path.read_bytes(), importer, package=path.name == "__init__.py")


@lru_cache(maxsize=512)  # targets of one file, and of kvcheck's own, reach the same ones
def _imported(source: bytes, importer: str, *, package: bool) -> tuple[frozenset[str], frozenset[str]]:
    """`_imports` of a file that holds this."""
    wanted: set[str] = set()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a file for another Python, which nobody here can import
        return frozenset(), frozenset()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, importer, package=package)
            wanted.add(base)
            wanted.update(f"{base}.{alias.name}" for alias in node.names)
    for name in tuple(wanted):
        parts = name.split(".")
        wanted.update(".".join(parts[:count]) for count in range(1, len(parts)))  # a package's own code runs first
    tops = frozenset(name.partition(".")[0] for name in wanted)
    return frozenset(name for name in wanted if _counts(name)), tops


def _absolute(node: ast.ImportFrom, importer: str, *, package: bool) -> str:
    """The absolute name of the module that a `from … import` names."""
    if not node.level:
        return node.module or ""
    parts = importer.split(".")
    keep = len(parts) - node.level + package
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])


def _counts(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return False
    return top not in FRAMEWORKS or name.startswith(OWN_KERNELS)


def _origin(name: str) -> Path | None:
    """The file of a module, loaded or not; None for what is no module or has no file."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
        return Path(file) if file and Path(file).is_file() else None
    spec = _spec(name)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return None
    return Path(spec.origin)


def _spec(name: str) -> ModuleSpec | None:
    """The spec of a module that is not loaded, found without running its packages' code."""
    parent = name.rpartition(".")[0]
    if not parent:
        with contextlib.suppress(ImportError, ValueError, AttributeError):
            return importlib.util.find_spec(name)
        return None
    folders = _folders(parent)
    with contextlib.suppress(KeyError):  # a folder without __init__.py asks for its parent, which is not loaded
        return PathFinder.find_spec(name, folders) if folders else None
    return None


def _folders(package: str) -> list[str]:
    """Where a package's modules lie, whether or not it is loaded, folders without `__init__.py` included."""
    loaded = sys.modules.get(package)
    spec = _spec(package) if loaded is None else loaded.__spec__
    if spec is not None:
        return list(spec.submodule_search_locations or ())
    parent, _, name = package.rpartition(".")
    return (
        [str(path) for path in (Path(folder) / name for folder in _folders(parent)) if path.is_dir()] if parent else []
    )
