"""An exception of a case in words: of bounded length, and such that any file can hold them."""

from __future__ import annotations

import traceback

from kvcheck.lowering.compile_errors import compile_failure
from kvcheck.lowering.interpreter_errors import NotModelledError, unjudged
from kvcheck.run.protocol import Failure
from kvcheck.run.untouched import TamperedError

#: Characters of a traceback and of its one line that are kept. Messages may hold whole tensors.
TEXT = 1 << 15
LINE = 1000


def failure_of(error: BaseException) -> Failure:
    """What a case leaves that ended with an exception. Raises nothing: an exception may fail to describe itself."""
    try:
        text = "".join(traceback.format_exception(error))
        unknown = unjudged(error)
        compiler = compile_failure(error)
    except Exception:  # noqa: BLE001 - what its __str__ or a property of it raises is no news of its own
        return Failure("crash", type(error).__name__, f"{type(error).__name__}, which fails to describe itself")
    undecided = error if isinstance(error, TamperedError) else unknown
    if isinstance(undecided, TamperedError | NotModelledError):
        return Failure("inconclusive", kept(text, TEXT), kept(str(undecided), LINE))
    return Failure("crash", kept(text, TEXT), _summary(error), None if compiler is None else kept(compiler, LINE))


def refusal_of(sentence: str) -> Failure:
    """What a case leaves that its target refused."""
    return Failure("refused", kept(sentence, TEXT), kept(sentence.splitlines()[0], LINE))


def kept(text: str, most: int) -> str:
    """`text` without lone surrogates, which UTF-8 cannot hold; its middle cut out where it is longer than `most`."""
    if len(text) > most:
        head = most // 4
        text = f"{text[:head]}[… {len(text) - most} characters left out …]{text[head - most :]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _summary(error: BaseException) -> str:
    """The exception's own line: its notes, and the text of what it came from, are in the traceback."""
    described = traceback.TracebackException(type(error), error, None)
    vars(described)["__notes__"] = None  # they would come last
    last = list(described.format_exception_only())[-1]
    lines = [line for line in last.splitlines() if line.strip()]
    return kept(lines[0].strip(), LINE) if lines else type(error).__name__
