"""`--select` and `--shard`."""

import pytest

from kvcheck.errors import SelectionError
from kvcheck.matrix.ids import case_id
from kvcheck.matrix.load import load_cases
from kvcheck.matrix.select import select, shard
from kvcheck.schema import Case

STRIDED = Case(k_view="1152,128,1+384", tokens=4)
CASES = (Case(), Case(heads=1), Case(k_view="qkv"), Case(k_view="qkv", heads=1, form="pages"), STRIDED)


@pytest.mark.parametrize(
    ("expressions", "chosen"),
    [
        ([], [0, 1, 2, 3, 4]),
        (["heads=1"], [1, 3]),
        (["heads!=1"], [0, 2, 4]),
        (["k_view=qkv,heads=1"], [3]),
        (["heads=1,k_view=qkv", "heads=3,k_view=dense"], [0, 3]),
        (["k_view=1152,128,1+384"], [4]),
        (["k_view=1152,128,1+384,tokens=4"], [4]),
        (["tokens=4,k_view!=1152,128,1", "heads=1"], [1, 3, 4]),
        (["form=pages"], [3]),
        (["form!=pages,k_view=qkv"], [2]),
        (["head_dim_v=128,heads=1"], [1, 3]),
        ([case_id(CASES[2])], [2]),
        ([case_id(CASES[2])[:4], "heads=1"], [1, 2, 3]),
        ([f"{case_id(CASES[3])},heads=1"], [3]),
    ],
)
def test_what_is_selected(expressions: list[str], chosen: list[int]) -> None:
    """Terms of one expression must all hold; expressions are alternatives; the order stays."""
    assert select(CASES, expressions) == tuple(CASES[index] for index in chosen)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("haeds=1", "unknown axis 'haeds'; did you mean 'heads'?"),
        ("=1", "unknown axis ''; the axes are "),
        ("k_view=qvk", "'qvk' is not accepted; expected dense, qkv, "),
        ("heads=", "'' is not accepted; expected an integer from 1 to 4096"),
        ("k_view=1,2,x", "'1' is not accepted; expected dense, "),
        ("heads=2", "selects none of 5 cases"),
        ("heads=1,heads=3", "selects none of 5 cases"),
        ("ffffffffff", "selects none of 5 cases"),
        ("abc", "'abc' is not a term; expected axis=value, axis!=value, or 4 to 10 hex digits of an id"),
        ("", "'' is not a term; "),
        ("heads=1,", "'' is not a term; "),
        ("a!b", "'a!b' is not a term; "),
    ],
)
def test_what_cannot_be_selected(expression: str, message: str) -> None:
    """One line that repeats the expression, also where another one selects something."""
    with pytest.raises(SelectionError) as raised:
        select(CASES, ["heads=1", expression])
    assert str(raised.value).startswith(f"--select {expression}: {message}")


def test_shards_are_a_partition_that_stays() -> None:
    """Every case is in one part, in order; a case's part does not depend on the others."""
    cases = load_cases(["seed"])
    parts = [shard(cases, f"{k}/4") for k in range(1, 5)]
    assert sorted(map(case_id, cases)) == sorted(case_id(case) for part in parts for case in part)
    assert all(part and list(part) == [case for case in cases if case in part] for part in parts)
    assert [shard(cases[::2], f"{k}/4") for k in range(1, 5)] == [
        tuple(case for case in part if case in cases[::2]) for part in parts
    ]
    assert shard(cases, "1/1") == cases
    assert shard((), "1/2") == ()


@pytest.mark.parametrize("part", ["0/4", "5/4", "1/0", "1", "a/b", "1/4/2", "-1/4", ""])
def test_what_is_no_shard(part: str) -> None:
    """K from 1 to N."""
    with pytest.raises(SelectionError) as raised:
        shard(CASES, part)
    assert str(raised.value) == f"--shard {part}: expected K/N with K from 1 to N, such as 1/4"
