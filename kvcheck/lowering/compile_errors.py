"""Which exceptions mean that a kernel does not compile. The only place that knows Triton's compile errors by name."""

from __future__ import annotations

#: Modules whose exceptions the compiler raises, and the one by which the corrected interpreter stands in for it.
_COMPILER = ("triton.compiler", "triton.backends", "triton.runtime.errors")
_COMPILE_ERRORS = frozenset(
    {"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct", "PTXASError", "OutOfResources"}
)
_STAND_IN = "NotCompiledError"
#: The language's own rules, which the compiler and the interpreter share: what they refuse does not compile either.
_RULES = "triton.language.semantic"


def compile_failure(error: BaseException) -> str | None:
    """The compiler's message, one line, where an exception or one that it comes from says "does not compile"."""
    seen: set[int] = set()
    step: BaseException | None = error
    while step is not None and id(step) not in seen:
        seen.add(id(step))
        kind = type(step)
        if kind.__name__ == _STAND_IN or (kind.__module__.startswith(_COMPILER) and kind.__name__ in _COMPILE_ERRORS):
            return _one_line(str(step))
        if _raised_in(step) == _RULES:
            return _one_line(str(step))
        # A fallback that failed in its turn is no compile failure: only what was raised "from" counts.
        step = step.__cause__
    return None


def _raised_in(error: BaseException) -> str:
    """The module whose code raised an exception."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))


def _one_line(text: str) -> str:
    """The last line that says something: Triton puts the source first and the reason at the end."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and set(line.strip()) != {"^"}]
    return lines[-1] if lines else "the compiler gave no reason"
