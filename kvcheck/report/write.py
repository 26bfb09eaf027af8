"""Write a report where other tools find it: `<out>/<arch>-<execution>/<target>/report.json` and `report.md`."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import TypeAlias

import msgspec

from kvcheck.errors import ReportError
from kvcheck.report.markdown import markdown
from kvcheck.report.plain import REPLACEMENT, one_line
from kvcheck.schema import Report

Json: TypeAlias = "bool | int | float | str | list[Json] | tuple[Json, ...] | dict[str, Json] | None"

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
#: Tables whose keys and values are anyone's: sorted, and a number that JSON does not have becomes a word.
_FREE = ("environment", "evidence")
#: A list of nothing but integers, one to a line. A line feed inside a JSON string is always escaped.
_SPREAD = re.compile(r"\[\n[\s\d,-]+\]")


class Written(msgspec.Struct, frozen=True):
    """The files that a report was written to."""

    json: Path
    markdown: Path


def write(report: Report, out: Path, *, strict: bool = False, taken: Collection[Path] = ()) -> Written:
    """Write both files of a report below `out`, each in one step: a reader sees the old file or the new one.

    `taken` are the folders that this run has written to: another target of the same name gets a number behind it.
    Raises ReportError where a folder or file cannot be written.
    """
    place = folder(report, out, taken)
    written = Written(place / "report.json", place / "report.md")
    replace(written.json, encode(report))
    replace(written.markdown, markdown(report, strict=strict).encode())
    return written


def folder(report: Report, out: Path, taken: Collection[Path] = ()) -> Path:
    """The folder of a report below `out`: `sm_90-native/specimen-shared-pitch`."""
    base = out / safe(f"{report.arch}-{report.execution}")
    name = safe(report.target.name.rpartition("::")[2])
    folders = (base / (name if number == 1 else f"{name}-{number}") for number in range(1, len(taken) + 2))
    return next(place for place in folders if place not in taken)


def safe(name: str) -> str:
    """`name` as a file name: letters, digits, `.`, `_`, `-`; never hidden, never empty, at most 100 characters."""
    return _UNSAFE.sub("-", name).strip("-.")[:100] or "target"


def encode(report: Report) -> bytes:
    """A report as indented JSON, keys in a fixed order, without NaN or infinity (`null`, in evidence a word)."""
    plain = _plain(msgspec.to_builtins(report, enc_hook=_number))
    text = msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()
    return (
        _SPREAD.sub(lambda match: "[" + ", ".join(match[0].strip("[]").replace(",", " ").split()) + "]", text) + "\n"
    ).encode()


def replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step, so that the file is whole at any instant. Raises ReportError.

    A pipe or a device is written to: a step that put a file in its place would take it from everybody.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(data)
            return
        try:
            with part.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise ReportError(f"{one_line(str(path))}: cannot be written: {error.strerror or error}") from error


def check_writable(path: Path) -> None:
    """See before the work that `replace` will do: its folder is made, and takes a file. Raises ReportError if not."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.is_file() or not path.exists():
            part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
            part.open("xb").close()
            part.unlink()
    except OSError as error:
        raise ReportError(f"{one_line(str(path))}: cannot be written: {error.strerror or error}") from error


def _sync_folder(place: Path) -> None:
    """Make a rename in a folder last; a file system that cannot is left at that."""
    handle = os.open(place, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _number(value: object) -> int | float | str:
    """A number of a library (numpy's, say) as Python's own; anything else as text."""
    item = getattr(value, "item", None)
    plain = item() if callable(item) else str(value)
    return plain if isinstance(plain, (int, float, str)) else str(plain)


def _plain(value: Json, *, free: bool = False) -> Json:
    """`value` with what JSON has no word for replaced: NaN and infinity by null, or by a word where it is `free`."""
    if isinstance(value, dict):
        pairs = sorted(value.items()) if free else value.items()
        return {_text(key): _plain(item, free=free or key in _FREE) for key, item in pairs}
    if isinstance(value, list | tuple):
        return [_plain(item, free=free) for item in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value) if free else None
    return value


def _text(value: str) -> str:
    """`value` without lone surrogates, which UTF-8 cannot hold."""
    return _SURROGATE.sub(REPLACEMENT, value)
