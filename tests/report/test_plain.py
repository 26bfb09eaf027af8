"""Strings from elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.report.plain import cut, number, one_line, printable, shorten

BAD = "a\x1b[31mred\x07\u202ereversed\udc80\x00"


def test_what_cannot_be_printed_is_replaced() -> None:
    """Escapes, bidirectional overrides, surrogates and NUL go; line feeds stay; tabs become spaces."""
    assert printable("a\tb\r\nc") == "a   b\nc"
    assert printable(BAD) == "a\ufffd[31mred\ufffd\ufffdreversed\ufffd\ufffd"


@given(st.text(st.characters()))
def test_one_line_is_one_printable_line(words: str) -> None:
    """No text gets a line feed or a control character through, nor a string that UTF-8 cannot hold."""
    made = one_line(words)
    assert made.isprintable()
    assert "\n" not in made
    made.encode()


@pytest.mark.parametrize(("words", "wanted"), [("abcdef", "abcdef"), ("abcdefg", "abc..."), ("ab cdefg", "ab...")])
def test_shorten_marks_what_it_cuts(words: str, wanted: str) -> None:
    """At most the width, with three dots where something is missing."""
    assert shorten(words, 6) == wanted


def test_cut_keeps_both_ends_and_counts_the_gap() -> None:
    """The first quarter and the end stay; the line between says how many are missing."""
    lines = [f"line {index}" for index in range(100)]
    assert cut("\n".join(lines[:8]), 8).split("\n") == lines[:8]
    made = cut("\n".join(lines), 8).split("\n")
    assert made == ["line 0", "line 1", "... 93 lines left out ...", *lines[95:]]
    assert cut("x" * 30, 8, width=10) == "xxxxxxx..."


def test_numbers_take_their_nouns() -> None:
    """One case, two cases, no case is plural; an irregular plural is given."""
    assert [number(count, "case") for count in (0, 1, 2)] == ["0 cases", "1 case", "2 cases"]
    assert [number(count, "axis", "axes") for count in (1, 2)] == ["1 axis", "2 axes"]
