"""The journal: what was written whole comes back, for the same run alone."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from kvcheck.errors import ReportError
from kvcheck.run.journal import Journal, Kept, kept
from kvcheck.run.result import not_run
from kvcheck.schema import Case, CaseResult, Diagnosis, ProcessVerdict

KEY = {"kernels": "aa", "arch": "sm_90"}
FIRST = not_run(Case(tokens=1), "pass", "")
SECOND = msgspec.structs.replace(
    not_run(Case(tokens=2), "mismatch", "wrong"),
    diagnosis=(Diagnosis("x", "k", 1, 2, "says", {"ratio": float("inf"), "count": 3, "at": [1, 2]}),),
)
THIRD = not_run(Case(tokens=3), "crash", "died")


def written(path: Path, *results: CaseResult) -> bytes:
    """A journal of some results, and its bytes."""
    with Journal(path, KEY, {}) as journal:
        for result in results:
            journal.add(result)
    return path.read_bytes()


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    """Every field does, infinite evidence included."""
    written(tmp_path / "journal", FIRST, SECOND)
    assert kept(tmp_path / "journal", KEY) == Kept({FIRST.id: FIRST, SECOND.id: SECOND})


def test_what_somebody_else_may_have_ended_is_run_again(tmp_path: Path) -> None:
    """Nothing is known of it, as of what is inconclusive."""
    killed = msgspec.structs.replace(THIRD, process=ProcessVerdict(signal="SIGKILL", outside=True))
    unclear = not_run(Case(tokens=4), "inconclusive", "?")
    written(tmp_path / "journal", FIRST, killed, unclear)
    assert kept(tmp_path / "journal", KEY) == Kept({FIRST.id: FIRST})


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    """A journal that takes results over has the bytes of one that was never closed."""
    whole = written(tmp_path / "whole", FIRST, SECOND)
    written(tmp_path / "cut", FIRST)
    with Journal(tmp_path / "cut", KEY, kept(tmp_path / "cut", KEY).results) as journal:
        journal.add(SECOND)
    assert (tmp_path / "cut").read_bytes() == whole


def test_cut_at_any_byte_the_whole_records_count(tmp_path: Path) -> None:
    """What is cut off inside a record loses that record, and no other."""
    path = tmp_path / "journal"
    starts = [len(written(path)), len(written(path, FIRST)), len(data := written(path, FIRST, SECOND))]
    for length in range(len(data)):
        path.write_bytes(data[:length])
        found = kept(path, KEY)
        assert len(found.results) == max(sum(length >= start for start in starts) - 1, 0)
        assert found.damaged == (length > starts[0] and length not in starts)
        assert found.anew == ("" if length >= starts[0] else "its journal is damaged from the start")


def test_from_a_damaged_byte_on_nothing_counts(tmp_path: Path) -> None:
    """Whichever byte of the second record it is, the third is not trusted either."""
    path = tmp_path / "journal"
    start, end = len(written(path, FIRST)), len(written(path, FIRST, SECOND))
    data = written(path, FIRST, SECOND, THIRD)
    for at in range(start, end):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
        assert kept(path, KEY) == Kept({FIRST.id: FIRST}, damaged=True)


def test_records_of_another_key_do_not_count(tmp_path: Path) -> None:
    """Neither by its own key, which is named, nor pasted behind this one."""
    path = tmp_path / "journal"
    head = len(written(path))
    data = written(path, FIRST)
    assert kept(path, {**KEY, "kernels": "bb"}).anew == "unlike what its journal is of: kernels"
    assert kept(path, {**KEY, "cases": ""}).anew == "unlike what its journal is of: cases"
    other = {**KEY, "kernels": "bb"}
    with Journal(path, other, {}):
        pass
    with path.open("ab") as file:
        file.write(data[head:])
    assert kept(path, other) == Kept({}, damaged=True)


def test_records_whose_checksum_holds_and_whose_body_is_none_do_not_count(tmp_path: Path) -> None:
    """A key that is no key, and a result that lacks its fields."""
    path = tmp_path / "journal"
    with Journal(path, {"a": 3}, {}):  # type: ignore[dict-item]
        pass
    assert kept(path, KEY).anew == "its journal is damaged from the start"
    written(path, Case())  # type: ignore[arg-type]
    assert kept(path, KEY) == Kept({}, damaged=True)


def test_what_was_inconclusive_is_run_again(tmp_path: Path) -> None:
    """Nothing is known of it."""
    written(tmp_path / "journal", FIRST, not_run(Case(tokens=2), "inconclusive", "no"))
    assert kept(tmp_path / "journal", KEY) == Kept({FIRST.id: FIRST})


def test_no_journal(tmp_path: Path) -> None:
    """None there, or one that is no file."""
    assert kept(tmp_path / "journal", KEY) == Kept({}, "there is no journal")
    with pytest.raises(ReportError, match="cannot be read: Is a directory"):
        kept(tmp_path, KEY)


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond some bytes, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_and_loses_no_earlier_case(tmp_path: Path) -> None:
    """The record that had no room is not whole, and those before it are."""
    path = tmp_path / "journal"
    size = len(written(path, FIRST)) + 20
    with files_up_to(size), Journal(path, KEY, {}) as journal:
        journal.add(FIRST)
        with pytest.raises(ReportError, match=r"journal: cannot be written: File too large; .*--resume"):
            journal.add(SECOND)
    assert path.stat().st_size == size
    assert kept(path, KEY) == Kept({FIRST.id: FIRST}, damaged=True)


def test_a_journal_that_cannot_be_started(tmp_path: Path) -> None:
    """One line says which file."""
    (tmp_path / "file").write_text("", encoding="ascii")
    with pytest.raises(ReportError, match="file/journal: cannot be written"):
        Journal(tmp_path / "file" / "journal", KEY, {})
