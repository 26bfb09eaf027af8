"""The numbers that users write."""

import pytest

from kvcheck.draw.factors import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("0.0123", 0.0123),
        ("1e4", 1e4),
        ("2.5e-3", 0.0025),
        ("2^-3", 0.125),
        ("2^10", 1024.0),
        ("2^-1074", 5e-324),
        ("2^1023", 2.0**1023),
    ],
)
def test_numbers_are_read(text: str, value: float) -> None:
    """Decimals and powers of two are read to the nearest float64."""
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0.0",
        "-1",
        "+1",
        ".5",
        "1.",
        "inf",
        "nan",
        "1e999",
        "2^",
        "2^1024",
        "2^-1075",
        "3^2",
        "2^1.5",
        "1\n",
        "1_0",
        "\u0663",
    ],
)
def test_others_are_not(text: str) -> None:
    """Zero, signs, infinities, and other spellings are refused."""
    assert parse(text) is None
