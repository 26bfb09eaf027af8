"""The hash of a target's kernels: whatever could change its bytes changes it, and nothing else does."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from kvcheck.targets.identity import kernels_sha256, uses_triton
from kvcheck.targets.load import load

from .conftest import Write

DECLARED = """
@store_target("t", contract=Contract(scale=Computed("token_head")))
def t(k, v, slots, cache): pass
"""
HEAD = "from kvcheck import Computed, Contract, store_target\n"


def _forget(folder: Path) -> None:
    """Drop the modules that were imported from a folder, as a new process has none of them."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
    sys.path_importer_cache.clear()
    for cache in folder.rglob("__pycache__"):
        shutil.rmtree(cache)


def _hash(target: Path) -> str:
    _forget(target.parent)
    (one,) = load(str(target))
    return kernels_sha256(one.module)


#: How a target can come by a helper, and the file that the helper is in.
IMPORTS = {
    "import": ("import helper", "helper.py"),
    "from": ("from helper import scale", "helper.py"),
    "as": ("import helper as other", "helper.py"),
    "in a function": ("def f():\n    import helper", "helper.py"),
    "in a function, from": ("def f():\n    from helper import scale", "helper.py"),
    "a module of a package": ("import package.inner", "package/inner.py"),
    "from a package": ("from package import inner", "package/inner.py"),
    "from a module of a package": ("from package.inner import scale", "package/inner.py"),
    "a package's own code": ("from package.inner import scale", "package/__init__.py"),
    "in a function, of a package": ("def f():\n    from package.inner import scale", "package/inner.py"),
    "in a function, a package's own code": ("def f():\n    import package.inner", "package/__init__.py"),
    "what a helper imports": ("import between", "helper.py"),
    "what a helper imports in a function": ("import between_late", "helper.py"),
    "relative to a package": ("import package.relative", "package/inner.py"),
    "relative, in a function": ("def f():\n    import package.deep.relative", "package/inner.py"),
    "if some day": ("if False:\n    import helper", "helper.py"),
    "or else": ("try:\n    import no_such\nexcept ImportError:\n    import helper", "helper.py"),
}


@pytest.mark.parametrize("way", IMPORTS)
def test_a_change_in_any_file_that_a_target_reaches_changes_the_hash(write: Write, way: str) -> None:
    """The helper's text counts, whichever way it is imported and whether or not it is loaded yet."""
    statement, file = IMPORTS[way]
    for name in ("helper.py", "package/__init__.py", "package/inner.py", "package/deep/__init__.py"):
        write(name, "scale = 448.0\n")
    write("between.py", "from helper import scale\n")
    write("between_late.py", "def f():\n    from helper import scale\n")
    write("package/relative.py", "from . import inner\n")
    write("package/deep/relative.py", "from ..inner import scale\n")
    target = write("target.py", f"{HEAD}{statement}\n{DECLARED}")
    before = _hash(target)
    assert _hash(target) == before
    write(file, "scale = 240.0\n")
    assert _hash(target) != before


def test_a_change_in_the_target_itself_changes_the_hash(write: Write) -> None:
    """A comment is enough: the hash errs on the wide side."""
    before = _hash(write("target.py", HEAD + DECLARED))
    assert _hash(write("target.py", HEAD + DECLARED + "# a comment\n")) != before


def test_what_is_not_imported_does_not_count(write: Write) -> None:
    """Neither a neighbour nor a word in a text."""
    target = write("target.py", f"{HEAD}text = 'import helper'\n{DECLARED}")
    write("helper.py", "scale = 448.0\n")
    before = _hash(target)
    write("helper.py", "scale = 240.0\n")
    assert _hash(target) == before


def test_the_hash_does_not_depend_on_where_the_files_lie(write: Write) -> None:
    """A checkout elsewhere has the same kernels."""
    found = []
    for folder in ("here", "there/and/deeper"):
        write(f"{folder}/helper.py", "scale = 448.0\n")
        found.append(_hash(write(f"{folder}/target.py", f"{HEAD}import helper\n{DECLARED}")))
        sys.path.pop(0)
        del sys.modules["helper"]
    assert found[0] == found[1]


def test_frameworks_and_pythons_own_library_do_not_count(write: Write) -> None:
    """Their versions stand in the report; kvcheck's own kernels are kernels, and count."""
    plain = load(str(write("plain.py", f"import json\nimport numpy\nimport msgspec\n{HEAD}{DECLARED}")))
    assert not uses_triton(plain[0].module)
    own = write("own.py", f"{HEAD}def f():\n    from kvcheck.kernels.encode import encode_e4m3fn\n{DECLARED}")
    assert uses_triton(load(str(own))[0].module)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("import triton", True),
        ("def f():\n    import triton.language as tl", True),
        ("import helper", True),
        ("import tritonlike", False),
        ("import json", False),
    ],
)
def test_a_target_uses_triton_where_anything_it_reaches_does(write: Write, statement: str, found: bool) -> None:
    """Then the CPU interprets it; else it is a host target."""
    write("helper.py", "def f():\n    from triton import jit\n")
    write("tritonlike.py", "")
    guarded = statement if statement.startswith("def") else f"if False:\n    {statement}"
    (one,) = load(str(write("target.py", f"{HEAD}{guarded}\n{DECLARED}")))
    assert uses_triton(one.module) is found


def test_a_built_library_is_hashed_as_the_file_it_is(write: Write) -> None:
    """Its bytes count, though Python cannot read them."""
    name = f"built{_suffix()}"
    target = write("target.py", f"{HEAD}def f():\n    import built\n{DECLARED}")
    write(name, "\x7fELF one")
    before = _hash(target)
    write(name, "\x7fELF two")
    assert _hash(target) != before


def _suffix() -> str:
    from importlib.machinery import EXTENSION_SUFFIXES  # noqa: PLC0415 - used here alone

    return EXTENSION_SUFFIXES[0]


def test_a_file_that_no_python_can_read_still_counts(write: Write) -> None:
    """An import that some other Python would make does not stop the run."""
    target = write("target.py", f"{HEAD}def f():\n    import old\n{DECLARED}")
    write("old.py", "print 'one'\n")
    before = _hash(target)
    write("old.py", "print 'two'\n")
    assert _hash(target) != before


def test_looking_for_files_runs_none_of_them(write: Write) -> None:
    """What a function imports is found on disk; a package's code does not run for it."""
    target = write("target.py", f"{HEAD}def f():\n    import package.inner\n{DECLARED}")
    write("package/__init__.py", "raise SystemExit('was run')\n")
    write("package/inner.py", "raise SystemExit('was run')\n")
    assert len(_hash(target)) == 64
    assert "package" not in sys.modules
