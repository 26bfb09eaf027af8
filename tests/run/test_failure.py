"""Exceptions of kernels in words, whatever they make of themselves."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.lowering.interpreter_errors import NotModelledError
from kvcheck.run.failure import LINE, TEXT, failure_of, kept, refusal_of
from kvcheck.run.protocol import Failure


class Mute(Exception):  # noqa: N818 - a kernel's
    """Fails to say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def _raised(error: BaseException, cause: BaseException | None = None) -> Failure:
    try:
        raise error from cause  # noqa: TRY301 - as a kernel does
    except BaseException as caught:  # noqa: BLE001 - as a case does
        failure = failure_of(caught)
    return msgspec.msgpack.decode(msgspec.msgpack.encode(failure), type=Failure)  # as it comes out of the file


def test_an_exception_is_its_traceback_and_one_line() -> None:
    """The line is the first of its own; what follows is in the traceback."""
    failure = _raised(ValueError("first\nsecond"), KeyError("cause"))
    assert (failure.kind, failure.summary, failure.compiler) == ("crash", "ValueError: first", None)
    assert all(part in failure.error for part in ("Traceback", "_raised", "second", "KeyError: 'cause'"))


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (ValueError(), "ValueError"),
        (ValueError("\n \n"), "ValueError:"),
        (SystemExit(0), "SystemExit: 0"),
        (SyntaxError("odd", ("f.py", 1, 2, "x = (", 1, 3)), "SyntaxError: odd"),
        (ValueError("\ud800 \x00"), "ValueError: \\ud800 \x00"),
    ],
)
def test_the_line_of_unusual_exceptions(error: BaseException, summary: str) -> None:
    """Without text, of blank lines, of code, with a character that no file can hold."""
    assert _raised(error).summary == summary


def test_notes_are_no_summary() -> None:
    """Compilers add notes, which come last; an empty one had been taken for the line itself."""
    error = ValueError("why")
    vars(error)["__notes__"] = ["while compiling", ""]
    assert _raised(error).summary == "ValueError: why"


def test_an_exception_that_cannot_describe_itself_is_a_crash_all_the_same() -> None:
    """Python's own words for it are taken; and the type's name where nothing else is left."""
    assert _raised(Mute()).summary.endswith("Mute: <exception str() failed>")

    class Worse(Mute):
        @property
        def __notes__(self) -> list[str]:
            raise RuntimeError("no")

    assert "Worse" in _raised(Worse()).summary


def test_a_message_that_is_a_whole_tensor_is_cut() -> None:
    """A report holds thousands of cases: the beginning and the end are kept."""
    failure = _raised(ValueError(f"begin {'x' * 1_000_000} end"))
    assert len(failure.summary) < LINE + 100
    assert len(failure.error) < TEXT + 100
    assert failure.error.startswith("Traceback")
    assert failure.error.endswith(" end\n")
    assert "characters left out" in failure.error


def test_causes_that_go_round_end() -> None:
    """An exception may be its own cause's cause."""
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert _raised(one, two).summary == "ValueError: one"


def test_what_the_interpreter_does_not_model_is_inconclusive() -> None:
    """Also where something else was raised from it."""
    failure = _raised(RuntimeError("in the interpreter"), NotModelledError("no such cast"))
    assert (failure.kind, failure.summary) == ("inconclusive", "no such cast")


def test_a_refusal_is_its_sentence() -> None:
    """The first line is the reason."""
    failure = refusal_of("Refused: not\nthese")
    assert (failure.kind, failure.error, failure.summary) == ("refused", "Refused: not\nthese", "Refused: not")


def test_what_is_short_is_kept_whole() -> None:
    """To the very limit."""
    assert kept("x" * 10, 10) == "x" * 10
    assert kept("a" * 5 + "b" * 20, 10) == "aa[… 15 characters left out …]bbbbbbbb"
