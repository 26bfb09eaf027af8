"""The journal of a run: every finished case, on disk at once, so that a run which is cut can be taken up again.

A file of records, each a checksum, a length and a msgpack body. The first body is the key, which says of what the rest
are results; the checksums of the rest are over the key too, so that no record counts for another run. Each record is
one write to the end of the file: what has been written outlives the death of every process here. There is no fsync: a
machine that loses its power may lose the last records, and a record that is not whole is run again.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

import msgspec

from kvcheck.errors import ReportError
from kvcheck.report.plain import one_line
from kvcheck.report.write import replace
from kvcheck.schema import CaseResult

NAME = "journal"

#: What results depend on, each part in words or as a hash, by what it is called in a sentence.
Key: TypeAlias = Mapping[str, str]

_HEAD = struct.Struct("<16sI")


@dataclass(frozen=True)
class Kept:
    """What a journal hands to the run that takes it up."""

    results: Mapping[str, CaseResult]
    """By the cases' ids. What was inconclusive is not among them, nor what somebody else may have ended: nothing is
    known of it."""
    anew: str = ""
    """Why there are none: one clause. Empty where the journal is this run's."""
    damaged: bool = False
    """Whether records were dropped: the one that is not whole, and all behind it."""


class Journal:
    """A file that results are added to. A context manager."""

    def __init__(self, path: Path, key: Key, kept: Mapping[str, CaseResult]) -> None:
        """Start the file with what was kept, in one step. Raises ReportError where it cannot be written."""
        self._path, self._key = path, _encoded(key)
        records = [_record(b"", self._key), *(_record(self._key, _encoded(result)) for result in kept.values())]
        replace(path, b"".join(records))
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise _unwritable(path, error) from error

    def __enter__(self) -> Journal:  # noqa: PYI034 - typing.Self came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def add(self, result: CaseResult) -> None:
        """Write a case's result. Raises ReportError where the file takes no more."""
        left = _record(self._key, _encoded(result))
        try:
            while left:  # the last bytes before a limit come through, and the next write says why no more do
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise _unwritable(self._path, error) from error


def kept(path: Path, key: Key) -> Kept:
    """What a journal at `path` knows under `key`. Raises ReportError where it is there and cannot be read."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Kept({}, "there is no journal")
    except OSError as error:
        raise ReportError(f"{one_line(str(path))}: cannot be read: {error.strerror or error}") from error
    first = next(_bodies(data, b""), None)
    if first is None:
        return Kept({}, "its journal is damaged from the start")
    try:
        of = msgspec.msgpack.decode(first, type=dict[str, str])
    except msgspec.MsgspecError:
        return Kept({}, "its journal is damaged from the start")
    unlike = [part for part in dict.fromkeys((*key, *of)) if key.get(part) != of.get(part)]
    if unlike:
        return Kept({}, f"unlike what its journal is of: {', '.join(unlike)}")
    results: dict[str, CaseResult] = {}
    end = _HEAD.size + len(first)
    for body in _bodies(data[end:], first):
        try:
            result = msgspec.msgpack.decode(body, type=CaseResult)
        except msgspec.MsgspecError:
            break
        end += _HEAD.size + len(body)
        results[result.id] = result
    known = {name: result for name, result in results.items() if _is_known(result)}
    return Kept(known, damaged=end != len(data))


def _is_known(result: CaseResult) -> bool:
    return result.outcome != "inconclusive" and not result.process.outside


def _bodies(data: bytes, key: bytes) -> Iterator[bytes]:
    """The bodies of the records at the start of `data`, as far as they are whole."""
    at = 0
    while at + _HEAD.size <= len(data):
        check, length = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + length]
        if len(body) != length or check != _checksum(key, body):
            return
        yield body
        at += _HEAD.size + length


def _record(key: bytes, body: bytes) -> bytes:
    return _HEAD.pack(_checksum(key, body), len(body)) + body


def _checksum(key: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16, key=hashlib.sha256(key).digest()).digest()


def _encoded(value: CaseResult | Key) -> bytes:
    return msgspec.msgpack.encode(value)


def _unwritable(path: Path, error: OSError) -> ReportError:
    return ReportError(
        f"{one_line(str(path))}: cannot be written: {error.strerror or error}; the cases before are kept for --resume"
    )
