"""The arithmetic of a code, against values worked out by hand."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.contract import Computed, Contract, Given
from kvcheck.report.arithmetic import arithmetic
from kvcheck.schema import FirstWrong

CONTRACT = Contract(scale=Computed(eps=1e-10))


def element(x: float | None, scale: float | None, got: int, want: int) -> FirstWrong:
    """An element of V."""
    return FirstWrong(tensor="v", token=1, head=0, dim=0, slot=4, got=got, want=want, x=x, scale=scale)


def test_a_quotient_lies_between_two_values_and_goes_to_the_nearer() -> None:
    """3.4375 / 0.5 = 6.875: e4m3's neighbours are 6.5 and 7; 7 is 0x4E. 0x38 is 1, and 0.5 under this scale."""
    assert arithmetic(CONTRACT, element(3.4375, 0.5, 0x38, 0x4E)) == [
        "q    3.4375 / 0.5 = 6.875",
        "     lies between 6.5 and 7, whose middle is 6.75",
        "due  0x4E = 7, by rne",
        "got  0x38 = 1, which under this scale stands for 0.5 instead of 3.4375",
    ]


@pytest.mark.parametrize(
    ("x", "where", "due"),
    [(1.0, "is a value of the format itself", 0x38), (512.0, "lies beyond the format's -448 to 448", 0x7E)],
)
def test_values_of_the_format_and_beyond_it(x: float, where: str, due: int) -> None:
    """1 is 0x38; 512 saturates to 448, 0x7E."""
    lines = arithmetic(CONTRACT, element(x, 1.0, 0, due))
    assert lines[1].strip() == where
    assert lines[2].startswith(f"due  0x{due:02X} = ")


def test_each_contract_shows_its_own_operation() -> None:
    """A multiplier is a factor and its code stands for the quotient; a reciprocal is one; no scale is none."""
    multiplier = Contract(scale=Given(direction="multiplier"))
    lines = arithmetic(multiplier, element(3.0, 2.0, 0x38, 0x4C))
    assert lines[0] == "q    3 * 2 = 6"
    assert lines[-1] == "got  0x38 = 1, which under this scale stands for 0.5 instead of 3"
    reciprocal = msgspec.structs.replace(CONTRACT, apply="multiply_reciprocal")
    assert arithmetic(reciprocal, element(3.0, 0.5, 0, 0x4C))[0] == "q    3 * (1 / 0.5) = 6"
    plain = arithmetic(Contract(scale=None), element(3.0, None, 0x38, 0x44))
    assert (plain[0], plain[-1]) == ("q    x = 3 = 3", "got  0x38 = 1")


def test_what_is_not_known_is_not_made_up() -> None:
    """Without a value, or without the scale that the contract has, there are the codes alone."""
    for x, scale in ((None, 1.0), (1.0, None)):
        lines = arithmetic(CONTRACT, element(x, scale, 0x38, 0x7F))
        assert lines == [
            "its value or its scale is not finite, or not in the report", "got  0x38 = 1", "due  0x7F",
        ]  # fmt: skip


def test_a_scale_of_zero_leaves_no_finite_quotient() -> None:
    """1 / 0 is infinite, which saturates; nothing is said of what the code stands for."""
    lines = arithmetic(CONTRACT, element(1.0, 0.0, 0x38, 0x7E))
    assert lines[1].strip() == "is not finite"
    assert lines[-1] == "got  0x38 = 1"


def test_another_due_than_the_judges_is_said() -> None:
    """The code that follows from value and scale is not passed off as the judge's."""
    assert "     the judge's due is 0x39, from another scale than this one" in arithmetic(
        CONTRACT, element(1.0, 1.0, 0, 0x39)
    )
