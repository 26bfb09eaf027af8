"""The cases of matrix files, merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from kvcheck.errors import MatrixError
from kvcheck.matrix import document, files, ids
from kvcheck.matrix.expand import expand
from kvcheck.schema import Case


def load_cases(paths: Sequence[str | Path]) -> tuple[Case, ...]:
    """Return the cases of all files (paths or shipped names), in order, each once.

    Raises MatrixError with one line where a file is missing, malformed or empty, or no file is given.
    """
    if not paths:
        raise MatrixError("no matrix file given")
    return merge(case for path in paths for case in expand(document.read(files.find(path))))


def merge(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Return each case once, in the order of first occurrence. Raises MatrixError where two cases share an id."""
    known: dict[str, Case] = {}
    for case in cases:
        name = ids.case_id(case)
        if known.setdefault(name, case) != case:
            raise MatrixError(f"two different cases have the id {name}; change the seed of one of them")
    return tuple(known.values())
