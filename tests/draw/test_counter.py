"""The streams of `kvcheck.draw.counter`: pinned bits, random access, keys kept apart."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.draw.counter import _philox_key, raw_bytes, words

KEYS = st.lists(st.one_of(st.text(max_size=3), st.integers()), max_size=3).map(tuple)
POSITIONS = st.integers(0, 1 << 66)


def test_bits_are_pinned() -> None:
    """The stream of a key is the same on every machine and numpy version."""
    assert [int(word) for word in words(("a", 1), 0, 5)] == [
        0x2435A9558AC39B95,
        0x3A94905AC0C23CCC,
        0x854D18027845269F,
        0xBDA30D27D0509154,
        0x5C129CA47C15D5C4,
    ]
    assert raw_bytes(("a", 1), 5, 19).tolist() == [169, 53, 36, 204, 60, 194, 192, 90, 144, 148, 58, 159, 38, 69]


@given(KEYS, POSITIONS, st.integers(0, 20), st.integers(0, 20))
def test_words_are_random_access(key: tuple[str | int, ...], start: int, skipped: int, count: int) -> None:
    """Any part of a stream drawn alone equals that part of a longer draw."""
    whole = words(key, start, skipped + count)
    assert whole.dtype == np.uint64
    assert words(key, start + skipped, count).tolist() == whole[skipped:].tolist()


@given(KEYS, POSITIONS, st.integers(0, 40), st.integers(0, 40))
def test_bytes_are_the_bytes_of_the_words(key: tuple[str | int, ...], start: int, skipped: int, count: int) -> None:
    """Byte i is byte i % 8, counted from the least, of word i // 8."""
    drawn = raw_bytes(key, start + skipped, start + skipped + count)
    first = (start + skipped) // 8
    stream = b"".join(int(word).to_bytes(8, "little") for word in words(key, first, 11))
    assert drawn.dtype == np.uint8
    assert drawn.tobytes() == stream[start + skipped - 8 * first :][:count]


def test_keys_that_look_alike_differ() -> None:
    """A number and its text, and parts joined differently, name different streams."""
    keys: list[tuple[str | int, ...]] = [("ab",), ("a", "b"), ("1",), (1,), (), ("",), ("a,b",), ('a","b',)]
    assert len({int(words(key, 0, 1)[0]) for key in keys}) == len(keys)


@given(KEYS, POSITIONS, st.integers(0, 20), KEYS)
def test_a_stream_does_not_depend_on_what_was_drawn_before(
    key: tuple[str | int, ...], start: int, count: int, other: tuple[str | int, ...]
) -> None:
    """The generator that all streams share begins as one made for this stream alone would."""
    words(other, start + 1, count)
    alone = np.random.Philox(key=_philox_key(key), counter=start // 4)
    assert words(key, start, count).tolist() == alone.random_raw(start % 4 + count)[start % 4 :].tolist()
