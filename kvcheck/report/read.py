"""Read a `report.json` back. Fields that a newer kvcheck added are passed over."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import msgspec

from kvcheck.contract import Computed, Contract, Form, Given, LoadContract
from kvcheck.errors import ReportError
from kvcheck.report.build import SCHEMA
from kvcheck.report.observable import observable_counts
from kvcheck.report.plain import one_line, shorten
from kvcheck.schema import Report

Fields: TypeAlias = "dict[str, object]"

#: Structs that take no unknown field, because users write them too, by their tags.
_CONTRACTS: dict[object, type[msgspec.Struct]] = {"store": Contract, "load": LoadContract}
_SCALES: dict[object, type[msgspec.Struct]] = {"computed": Computed, "given": Given}


def read(path: Path) -> Report:
    """The report in a file, or in the `report.json` of a folder.

    Raises ReportError, one line, where the file is missing, is no JSON, has another schema or lacks a field.
    """
    file = path / "report.json" if path.is_dir() else path
    try:
        data = file.read_bytes()
    except FileNotFoundError as error:
        missing = "the folder holds no report.json" if path.is_dir() else "no such file or folder"
        raise ReportError(f"{one_line(str(path))}: {missing}; expected a report.json, or the folder of one") from error
    except OSError as error:
        raise ReportError(f"{one_line(str(file))}: cannot be read: {error.strerror or error}") from error
    try:
        return decode(data)
    except ValueError as error:  # msgspec's errors are ValueErrors too
        raise ReportError(f"{one_line(str(file))}: not a report: {shorten(str(error), 200)}") from error


def decode(data: bytes) -> Report:
    """The report in the bytes of a `report.json`. Raises ValueError where they are none."""
    top = msgspec.json.decode(data, type=dict[str, object])
    if top.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {top.get('schema')!r}; expected {SCHEMA!r}")
    target = top.get("target")
    if isinstance(target, dict):
        top["target"] = {**target, **_known(target)}
    report = msgspec.convert(top, Report)
    observable_counts(report.faults, report.cases)
    for case in report.cases:
        if case.shown and not 0 <= min(case.shown) <= max(case.shown) < len(report.forms):
            raise ValueError(f"case {case.id}: shown points outside the {len(report.forms)} forms of the report")
    return report


def _known(target: Fields) -> Fields:
    """The contract and form of a target without the fields that this version does not know."""
    known: Fields = {}
    if isinstance(form := target.get("form"), dict):
        known["form"] = _of(form, Form)
    if isinstance(contract := target.get("contract"), dict):
        kept = _of(contract, _CONTRACTS.get(contract.get("type")))
        if isinstance(scale := kept.get("scale"), dict):
            kept["scale"] = _of(scale, _SCALES.get(scale.get("type")))
        known["contract"] = kept
    return known


def _of(fields: Fields, kind: type[msgspec.Struct] | None) -> Fields:
    """The fields that `kind` has, and the tag; all of them where the kind is unknown, for msgspec to refuse."""
    if kind is None:
        return fields
    return {key: value for key, value in fields.items() if key == "type" or key in kind.__struct_fields__}
