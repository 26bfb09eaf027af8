"""Tracebacks told for the reader's own code: its frames first, those of triton, torch, Python and kvcheck folded.

Triton's interpreter raises one exception inside another, a dozen frames each; where the mistake lies is one of the
few frames in between. The text is all there is here: the process that raised it is gone.
"""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from kvcheck.report.plain import cut, number, one_line, printable, shorten

_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>.+)')
_HEAD = "Traceback (most recent call last):"
#: What faulthandler writes of a process that a signal ends: calls from the innermost out, without their source.
_FATAL = re.compile(
    r"^(?P<error>Fatal Python error: .+)\n"
    r"(?:.*\n)*?Current thread .*\(most recent call first\):\n(?P<frames>(?:  .*\n?)+)",
    re.MULTILINE,
)
_FATAL_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<name>.+)')
_CHAINED = re.compile(
    r"\n*(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):\n*"
)
#: Code that is nobody's kernel or adapter, by what it is called.
_FOREIGN = {
    "triton": re.compile(r"(?:^|/(?:site-packages|dist-packages|python)/)triton/"),
    "torch": re.compile(r"(?:^|/(?:site-packages|dist-packages|pytorch)/)torch/"),
    "kvcheck": re.compile(r"(?:^|/)kvcheck/(?:api\.py$|(?:run|lowering|memory|draw|formats|targets)/\w+\.py$)"),
    "Python": re.compile(r"^<frozen|(?:^|/)lib/python[\d.]+/(?!(?:site|dist)-packages/)"),
}
#: Exceptions that only wrap another one.
_WRAPPERS = re.compile(r"(?:[\w.]+\.)?InterpreterError\b")


class Frame(msgspec.Struct, frozen=True):
    """A call: where, in which function, and its source, empty where it could not be read."""

    file: str
    line: int
    name: str
    source: str


class Trace(msgspec.Struct, frozen=True):
    """A traceback taken apart: calls from the outermost to the one that raised, exceptions from the first on."""

    exceptions: tuple[str, ...]
    own: tuple[Frame, ...]
    folded: dict[str, int]
    """How many frames are whose."""


def parse(error: str) -> Trace | None:
    """The traceback in a process' last words, or None where there is none."""
    fatal = _FATAL.search(printable(error))
    if fatal is not None:
        found = _FATAL_FRAME.finditer(fatal["frames"])
        inwards = [Frame(frame["file"], int(frame["line"]), frame["name"], "") for frame in found]
        return _trace([fatal["error"]], inwards[::-1])
    if _HEAD not in error:
        return None
    text = printable(error[error.index(_HEAD) :]).rstrip()
    exceptions: list[str] = []
    calls: list[list[Frame]] = []
    for part in _CHAINED.split(text):
        frames, raised = _segment(part)
        calls.append(frames)
        exceptions.append(raised)
    # A cause is written before what it caused, and lies deeper.
    return _trace(exceptions, [frame for part in reversed(calls) for frame in part])


def _trace(exceptions: list[str], frames: list[Frame]) -> Trace:
    """The reader's own of the frames, and how many are whose."""
    whose = [_whose(frame.file) for frame in frames]
    own = tuple(frame for frame, name in zip(frames, whose, strict=True) if not name)
    return Trace(tuple(each for each in exceptions if each), own, dict(Counter(name for name in whose if name)))


#: What torch adds to every error of CUDA, whatever it is.
_ADVICE = re.compile(r"\n(?:Search for `cuda|CUDA kernel errors might be asynchronously).*", re.DOTALL)


def raised(error: str | None) -> str:
    """What a process died of, in one line: the exception, less what only wraps it; or the last line it printed."""
    trace = parse(error or "")
    if trace is not None and trace.exceptions:
        return one_line(_ADVICE.sub("", _without_wrappers(trace.exceptions)[-1]))
    lines = [line for line in (error or "").splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""


def told(error: str, lines: int, width: int = 160) -> str:
    """A process' last words in at most `lines` lines: own frames and the exception; all of it where none are own."""
    trace = parse(error)
    if trace is None or not trace.own:
        return cut(error, lines, width)
    what = "\n".join(_without_wrappers(trace.exceptions)).rstrip().split("\n")
    kept = [shorten(line, width) if index == 0 else line[:width] for index, line in enumerate(what)]
    calls = []
    for frame in trace.own:
        calls += [f"{frame.file}:{frame.line}, in {frame.name}"] + ([f"    {frame.source}"] if frame.source else [])
    room = max(lines - min(len(kept), lines // 2) - bool(trace.folded), 2)
    if len(calls) > room:
        calls = ["...", *calls[-(room - 1) :]]
    folded = ", ".join(f"{name} {count}" for name, count in trace.folded.items())
    notes = [f"({number(sum(trace.folded.values()), 'frame')} left out: {folded})"] if folded else []
    return "\n".join(
        [*(call[:width] for call in calls), cut("\n".join(kept), max(lines - len(calls) - 1, 1), width), *notes]
    )


def _segment(text: str) -> tuple[list[Frame], str]:
    """The frames of one traceback, and its exception with all lines of its message."""
    frames: list[Frame] = []
    lines = text.removeprefix(_HEAD).strip("\n").split("\n")
    index = 0
    while index < len(lines) and lines[index].startswith("  "):
        match = _FRAME.match(lines[index])
        index += 1
        source = []
        while index < len(lines) and lines[index].startswith("    ") and not _FRAME.match(lines[index]):
            source.append(lines[index].strip())
            index += 1
        if match:
            code = next((line for line in source if line.strip("^~ ")), "")
            frames.append(Frame(match["file"], int(match["line"]), match["name"], code))
    return frames, "\n".join(lines[index:]).strip()


def _whose(file: str) -> str:
    """Whose code a file is, empty where it is the reader's own."""
    return next((name for name, pattern in _FOREIGN.items() if pattern.search(file)), "")


def _without_wrappers(exceptions: tuple[str, ...]) -> list[str]:
    """The last exception; or, where that only wraps another, the last that does not."""
    own = [each for each in exceptions if not _WRAPPERS.match(each)]
    return [own[-1] if own else exceptions[-1]] if exceptions else []
