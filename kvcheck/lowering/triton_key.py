"""The name that Triton gives its own build, remembered: it hashes half a gigabyte of its library in every process.

`triton_key` is private. It was seen in `triton.compiler.compiler` on triton 3.2.0, and in `triton.runtime.cache`, from
where others import it, on 3.6.0, 3.7.1 and 3.9.0; where a version has it elsewhere it is worked out as ever.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NAME = "triton_key"
#: Who holds it, by its own name.
_MODULES = ("triton.runtime.cache", "triton.compiler.compiler", "triton.runtime.autotuner")
#: What it hashes has one of these suffixes.
_HASHED = (".py", ".so")


@dataclass(frozen=True)
class _Remembered:
    """What stands in for Triton's function."""

    key: str

    def __call__(self) -> str:
        return self.key


def remember_triton_key() -> None:
    """Have this process take the key from a file, if Triton is imported; where there is no file, leave one.

    The file is of no use once any of Triton's files has another size, or was touched since: it is named for them.
    """
    holders = [module for name in _MODULES if (module := sys.modules.get(name)) and callable(vars(module).get(_NAME))]
    if not holders or isinstance(vars(holders[0])[_NAME], _Remembered):
        return
    with contextlib.suppress(OSError):
        file = _folder() / f"triton-key-{_state(_root())}"
        key = _kept(file)
        if key is None:
            key = str(vars(holders[0])[_NAME]())
            _keep(file, key)
        for holder in holders:
            setattr(holder, _NAME, _Remembered(key))


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvcheck"


def _root() -> Path:
    """Triton's folder. Raises OSError where it is none."""
    found = importlib.util.find_spec("triton")
    if found is None or found.origin is None:
        raise OSError("triton is no folder")
    return Path(found.origin).parent


def _state(root: Path) -> str:
    """A hash of where Triton's files lie, and of what changes with any of them: sizes, inodes and times."""
    said = [
        f"{path} {each.st_size} {each.st_dev} {each.st_ino} {each.st_mtime_ns} {each.st_ctime_ns}"
        for path, each in _files(str(root), set())
    ]
    return hashlib.sha256("\n".join(sorted(said)).encode()).hexdigest()[:32]


def _files(folder: str, seen: set[tuple[int, int]]) -> Iterator[tuple[str, os.stat_result]]:
    """The files that a key may depend on. Links are followed: a build in place has its back ends behind some."""
    for name in os.listdir(folder):  # noqa: PTH208 - names are enough
        path = os.path.join(folder, name)  # noqa: PTH118 - hundreds of paths, in a start that is waited for
        entry = os.stat(path)  # noqa: PTH116
        if not stat.S_ISDIR(entry.st_mode):
            if name.endswith(_HASHED):
                yield path, entry
        elif (entry.st_dev, entry.st_ino) not in seen:
            seen.add((entry.st_dev, entry.st_ino))
            yield from _files(path, seen)


def _kept(file: Path) -> str | None:
    """The key in a file; None where there is none, or not the whole of one."""
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
        key, _, check = file.read_text(encoding="utf-8").partition("\n")
        if check == _check(key):
            return key
    return None


def _keep(file: Path, key: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.{os.getpid()}")
    new.write_text(f"{key}\n{_check(key)}", encoding="utf-8")
    new.replace(file)  # whole or absent, though others may leave the same


def _check(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
