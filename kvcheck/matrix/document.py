"""A matrix file as data, checked key by key: its tables, its axes, and every value of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kvcheck.errors import MatrixError
from kvcheck.matrix.axes import AXES, Value, unknown_axis

#: Bytes of a matrix file: what has more is no matrix, or a device.
LARGEST = 64 << 20

TABLES = ("axes", "fixed", "exclude", "case", "sample")


@dataclass(frozen=True)
class Sample:
    """A covering array in place of the cross product: every combination of `strength` axes' values occurs."""

    strength: int = 2
    seed: int = 0


@dataclass(frozen=True)
class Document:
    """What a matrix file says. `axes` has the values of each swept axis; `fixed` one value of others.

    A case of the product that has, for every axis of one of `excludes`, one of the values named there, is dropped.
    `cases` come on top, over `fixed`, and are never dropped.
    """

    path: Path
    axes: Mapping[str, tuple[Value, ...]]
    fixed: Mapping[str, Value]
    excludes: tuple[Mapping[str, tuple[Value, ...]], ...]
    cases: tuple[Mapping[str, Value], ...]
    sample: Sample | None


@dataclass(frozen=True)
class _Place:
    """Where in a file something stands, for the one line that says what is wrong with it."""

    path: Path
    key: str = ""

    def at(self, key: str) -> _Place:
        return _Place(self.path, f"{self.key}.{key}" if self.key else key)

    def index(self, position: int) -> _Place:
        return _Place(self.path, f"{self.key}[{position}]")

    def error(self, text: str) -> MatrixError:
        line = " ".join(f"{self.path}: {self.key + ': ' if self.key else ''}{text}".split())
        return MatrixError(line)


def read(path: Path) -> Document:
    """Read a matrix file. Raises MatrixError with one line: the file, the key, the value, and what is accepted."""
    place = _Place(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        text = data.decode("utf-8-sig")  # editors put a mark in front
    except FileNotFoundError:
        raise place.error("no such file") from None
    except IsADirectoryError:
        raise place.error("is a directory; expected a TOML file") from None
    except UnicodeDecodeError as error:
        raise place.error(f"is not UTF-8 at byte {error.start}; expected a TOML file") from None
    except OSError as error:
        raise place.error(f"cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise place.error(f"is larger than {LARGEST >> 20} MiB; expected a TOML file")
    try:
        content: dict[str, object] = msgspec.toml.decode(text + "\n")  # the end of the last line has a number then
    except (msgspec.DecodeError, ValueError) as error:
        raise place.error(f"is not TOML: {error}") from None
    except RecursionError:
        raise place.error("is not TOML: nested too deeply") from None
    return _document(place, content)


def _document(place: _Place, content: Mapping[str, object]) -> Document:
    for name in content:
        if name not in TABLES:
            near = difflib.get_close_matches(name, TABLES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected {', '.join(TABLES)}"
            raise place.at(name).error(f"unknown table; {hint}")
    axes = {name: _values(at, name, value) for name, value, at in _entries(place, "axes", content.get("axes", {}))}
    fixed = {name: _value(at, name, value) for name, value, at in _entries(place, "fixed", content.get("fixed", {}))}
    for name in fixed:
        if name in axes:
            raise place.at("fixed").at(name).error("is also in [axes]; expected one of the two")
    excludes = tuple(
        {name: _one_or_more(at, name, value) for name, value, at in _entries(place, key, table)}
        for key, table in _tables(place, "exclude", content)
    )
    cases = tuple(
        {name: _value(at, name, value) for name, value, at in _entries(place, key, table)}
        for key, table in _tables(place, "case", content)
    )
    sample = _sample(place.at("sample"), content["sample"]) if "sample" in content else None
    document = Document(place.path, axes, fixed, excludes, cases, sample)
    _check_excludes(place, document)
    return document


def _entries(place: _Place, key: str, table: object) -> list[tuple[str, object, _Place]]:
    """Return the axes that a table names, with their raw values and where they stand."""
    at = _Place(place.path, key)
    if not isinstance(table, dict):
        raise at.error(f"is {_shown(table)}; expected a table")
    for name in table:
        if name not in AXES:
            raise at.at(str(name)).error(unknown_axis(str(name)))
    return [(name, value, at.at(name)) for name, value in table.items()]


def _tables(place: _Place, name: str, content: Mapping[str, object]) -> list[tuple[str, object]]:
    """Return the tables of a [[name]] array, each with its key."""
    array = content.get(name, [])
    if not isinstance(array, list):
        raise place.at(name).error(f"expected an array of tables: [[{name}]]")
    return [(f"{name}[{position}]", table) for position, table in enumerate(array)]


def _value(place: _Place, axis: str, value: object) -> Value:
    reason = AXES[axis].check(value)
    if reason is not None or not isinstance(value, str | int):
        raise place.error(f"{_shown(value)} is not accepted; {reason}")
    return value


def _values(place: _Place, axis: str, listed: object) -> tuple[Value, ...]:
    """Return the values of a list, each once."""
    if not isinstance(listed, list):
        raise place.error(f"is {_shown(listed)}; expected a list of values")
    if not listed:
        raise place.error("is an empty list; expected at least one value")
    return tuple(dict.fromkeys(_value(place.index(at), axis, value) for at, value in enumerate(listed)))


def _one_or_more(place: _Place, axis: str, value: object) -> tuple[Value, ...]:
    return _values(place, axis, value) if isinstance(value, list) else (_value(place, axis, value),)


def _shown(value: object) -> str:
    """Return how a value reads in a message of one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _sample(place: _Place, table: object) -> Sample:
    if not isinstance(table, dict):
        raise place.error(f"is {_shown(table)}; expected a table")
    for name, value in table.items():
        if name == "strength":
            if type(value) is not int or value not in (1, 2, 3):
                raise place.at(name).error(f"{_shown(value)} is not accepted; expected 1, 2 or 3")
        elif name == "seed":
            if type(value) is not int or value < 0:
                raise place.at(name).error(f"{_shown(value)} is not accepted; expected an integer from 0")
        else:
            raise place.at(str(name)).error("unknown key; expected strength or seed")
    return Sample(**table)


def _check_excludes(place: _Place, document: Document) -> None:
    """Refuse an exclude that can match no case of the product: a misspelt one would drop nothing, and say nothing."""
    for position, exclude in enumerate(document.excludes):
        at = place.at("exclude").index(position)
        if not exclude:
            raise at.error("is empty; expected axes and the values to drop")
        for name, values in exclude.items():
            there: tuple[Value | None, ...] = document.axes.get(name, ())
            there = there or (document.fixed.get(name, AXES[name].default),)
            if not set(values) & set(there):
                raise at.at(name).error(f"matches no case: {name} is only {', '.join(map(_shown, there))} here")
