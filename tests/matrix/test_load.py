"""Cases of files, merged; and the seed matrix that is shipped."""

from pathlib import Path

import pytest

from kvcheck.errors import MatrixError
from kvcheck.matrix import ids
from kvcheck.matrix.load import load_cases, merge
from kvcheck.schema import Case


def test_files_are_merged_in_order(tmp_path: Path) -> None:
    """A case of two files, or twice in one, comes once, where it came first."""
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_text("[axes]\nheads = [2, 1]\n[[case]]\nheads = 1\n")
    other.write_text("[axes]\nheads = [1, 4]\nhead_dim_v = [128]\n")
    assert load_cases([one, str(other)]) == (Case(heads=2), Case(heads=1), Case(heads=4))


def test_no_file_is_an_error() -> None:
    """Nothing to load is not an empty pass."""
    with pytest.raises(MatrixError, match=r"^no matrix file given$"):
        load_cases([])


def test_two_cases_with_one_id_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash that collides is said, never a case lost."""
    monkeypatch.setattr(ids, "case_id", lambda _: "0123456789")
    assert merge([Case(), Case()]) == (Case(),)
    with pytest.raises(MatrixError, match=r"^two different cases have the id 0123456789; "):
        merge([Case(), Case(heads=1)])


def test_the_seed_holds_the_reported_case() -> None:
    """Both layouts of it, its neighbours by view, size and dtype, and no other pair of sizes."""
    cases = load_cases(["seed"])
    assert len(cases) == 48
    for layout in ("pooled", "arena"):
        assert Case(k_view="qkv", k_values="normal*5", v_values="normal*0.01", layout=layout) in cases
    assert {(case.k_values, case.v_values) for case in cases} == {
        ("normal*5", "normal*0.01"),
        ("normal*0.01", "normal*5"),
    }
    assert {(case.k_view, case.v_view) for case in cases} == {
        (k, v) for k in ("dense", "qkv") for v in ("dense", "qkv")
    }
    assert {case.dtype for case in cases} == {"bf16", "fp16", "fp32"}
    assert {(case.tokens, case.heads, case.head_dim) for case in cases} == {(8, 3, 128)}
