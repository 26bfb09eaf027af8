"""From a matrix file's axes to cases: the cross product or a covering array, less what is excluded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from kvcheck.errors import MatrixError
from kvcheck.matrix.axes import Value, build
from kvcheck.matrix.covering import cover
from kvcheck.matrix.document import Document
from kvcheck.schema import Case

#: A product beyond this is a mistake, or wants [sample].
MOST = 1_000_000


def expand(document: Document) -> tuple[Case, ...]:
    """Return the cases of a file in its own order, the product's first. Raises MatrixError where there are none."""
    cases = [build({**document.fixed, **row}) for row in _rows(document)]
    cases += [build({**document.fixed, **chosen}) for chosen in document.cases]
    if not cases:
        why = "every case is excluded" if document.axes or document.fixed else "it has no [axes] and no [[case]]"
        raise MatrixError(f"{document.path}: the matrix is empty: {why}")
    return tuple(cases)


def _rows(document: Document) -> Sequence[Mapping[str, Value]]:
    """Return what varies in each case of the product. Without axes it is one case, or none beside [[case]]s."""
    if not document.axes and (document.cases or not document.fixed):
        return []
    # Every exclude matches what is fixed, or it would have been refused. What is left of it concerns the axes; where
    # nothing is left, it drops every row.
    excludes = [
        {name: values for name, values in exclude.items() if name in document.axes} for exclude in document.excludes
    ]
    if document.axes and document.sample is not None:
        _check_sample(document, document.sample.strength)
        return cover(document.axes, excludes, document.sample.strength, document.sample.seed)
    count = math.prod(len(values) for values in document.axes.values())
    if count > MOST:
        raise MatrixError(f"{document.path}: axes: the product is {count} cases, more than {MOST}; add [sample]")
    return list(_product(document.axes, excludes))


def _check_sample(document: Document, strength: int) -> None:
    sizes = [len(values) for values in document.axes.values()]
    count = sum(math.prod(chosen) for chosen in itertools.combinations(sizes, min(strength, len(sizes))))
    if count > MOST:
        raise MatrixError(
            f"{document.path}: sample.strength: {strength} means {count} combinations, more than {MOST}; "
            "expected a lower strength or fewer values"
        )


def _product(
    axes: Mapping[str, Sequence[Value]], excludes: Sequence[Mapping[str, Sequence[Value]]]
) -> Iterator[Mapping[str, Value]]:
    """Yield the rows of the cross product, the last axis fastest, less the excluded."""
    for values in itertools.product(*axes.values()):
        row = dict(zip(axes, values, strict=True))
        if not any(all(row[name] in dropped for name, dropped in exclude.items()) for exclude in excludes):
            yield row
