"""From documents to cases."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kvcheck.errors import MatrixError
from kvcheck.matrix.axes import Value
from kvcheck.matrix.document import Document, Sample
from kvcheck.matrix.expand import expand
from kvcheck.schema import Case


def _document(
    axes: Mapping[str, tuple[Value, ...]] | None = None,
    fixed: Mapping[str, Value] | None = None,
    excludes: Sequence[Mapping[str, tuple[Value, ...]]] = (),
    cases: Sequence[Mapping[str, Value]] = (),
    sample: Sample | None = None,
) -> Document:
    return Document(Path("m.toml"), axes or {}, fixed or {}, tuple(excludes), tuple(cases), sample)


def test_the_product_in_order() -> None:
    """The last axis goes fastest; fixed values are in every case."""
    assert expand(_document({"heads": (1, 2), "dtype": ("bf16", "fp32")}, {"tokens": 4})) == (
        Case(tokens=4, heads=1, dtype="bf16"),
        Case(tokens=4, heads=1, dtype="fp32"),
        Case(tokens=4, heads=2, dtype="bf16"),
        Case(tokens=4, heads=2, dtype="fp32"),
    )


def test_excludes_drop_what_matches_every_key() -> None:
    """All keys must match; what is fixed or default counts as a match; listed values are alternatives."""
    axes: dict[str, tuple[Value, ...]] = {"heads": (1, 2, 3), "tokens": (0, 8)}
    excludes: list[Mapping[str, tuple[Value, ...]]] = [
        {"heads": (1, 3), "tokens": (0,), "seed": (5,), "dtype": ("bf16",)},
        {"heads": (2,), "tokens": (8,)},
    ]
    cases = expand(_document(axes, {"seed": 5}, excludes))
    assert [(case.heads, case.tokens) for case in cases] == [(1, 8), (2, 0), (3, 8)]


def test_listed_cases_come_on_top() -> None:
    """They follow the product, over the fixed values, and no exclude drops them; without axes they are all."""
    listed = [{"heads": 1}, {"tokens": 2}]
    cases = expand(_document({"heads": (1, 2)}, {"tokens": 4}, [{"heads": (1,)}], listed))
    assert cases == (Case(tokens=4, heads=2), Case(tokens=4, heads=1), Case(tokens=2))
    assert expand(_document(None, {"tokens": 4}, (), listed)) == (Case(tokens=4, heads=1), Case(tokens=2))


def test_fixed_alone_is_one_case() -> None:
    """Also with a sample, of which nothing is left to vary."""
    assert expand(_document(None, {"tokens": 4})) == (Case(tokens=4),)
    assert expand(_document(None, {"tokens": 4}, sample=Sample())) == (Case(tokens=4),)


def test_a_sample_covers_every_pair() -> None:
    """Fewer cases than the product, with every pair of values that is not excluded; listed cases on top."""
    axes: dict[str, tuple[Value, ...]] = {"heads": (1, 2, 3), "tokens": (1, 2, 3), "head_dim": (8, 16), "page": (1, 2)}
    excludes: list[Mapping[str, tuple[Value, ...]]] = [{"heads": (1,), "tokens": (1, 2)}]
    cases = expand(_document(axes, {"seed": 3}, excludes, [{"heads": 7}], Sample(2, 0)))
    assert cases[-1] == Case(heads=7, seed=3)
    assert len(cases) < 20
    assert all(case.seed == 3 for case in cases)
    for one, other in itertools.combinations(axes, 2):
        wanted = set(itertools.product(axes[one], axes[other]))
        if (one, other) == ("heads", "tokens"):
            wanted -= {(1, 1), (1, 2)}
        assert {(getattr(case, one), getattr(case, other)) for case in cases[:-1]} == wanted


@pytest.mark.parametrize("sample", [None, Sample()])
def test_an_empty_matrix_is_an_error(sample: Sample | None) -> None:
    """Nothing listed, or everything excluded: by axes, or by what is fixed alone."""
    for document, why in [
        (_document(sample=sample), "it has no [axes] and no [[case]]"),
        (_document({"heads": (1, 2)}, None, [{"heads": (1, 2)}], sample=sample), "every case is excluded"),
        (_document({"heads": (1, 2)}, {"seed": 1}, [{"seed": (1,)}], sample=sample), "every case is excluded"),
        (_document(None, {"seed": 1}, [{"seed": (1,)}], sample=sample), "every case is excluded"),
    ]:
        with pytest.raises(MatrixError) as raised:
            expand(document)
        assert str(raised.value) == f"m.toml: the matrix is empty: {why}"


def test_what_is_too_large_is_an_error() -> None:
    """A product, or a sample's combinations, beyond a million."""
    axes: dict[str, tuple[Value, ...]] = dict.fromkeys(("tokens", "heads", "seed"), tuple(range(1, 102)))
    for sample, message in [
        (None, "m.toml: axes: the product is 1030301 cases, more than 1000000; add [sample]"),
        (Sample(3), "m.toml: sample.strength: 3 means 1030301 combinations, more than 1000000; expected a lower"),
    ]:
        with pytest.raises(MatrixError) as raised:
            expand(_document(axes, sample=sample))
        assert str(raised.value).startswith(message)
