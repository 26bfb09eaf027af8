"""Tracebacks: the reader's own frames first, others counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.report.traces import Frame, parse, raised, told

PACKAGES = "/venv/lib/python3.12/site-packages"
INTERPRETED = f"""Traceback (most recent call last):
  File "{PACKAGES}/triton/runtime/interpreter.py", line 1482, in __call__
    return fn(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^
  File "/home/me/kvcheck/kernel.py", line 7, in helper
    return x + y.nonsense
               ^^^^^^^^^^
AttributeError: 'tensor' object has no attribute 'nonsense'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "{PACKAGES}/triton/runtime/interpreter.py", line 1349, in __call__
    self.fn(**args)
  File "/home/me/kvcheck/kernel.py", line 12, in _kernel
    y = helper(x, x)
        ^^^^^^^^^^^^
  File "{PACKAGES}/triton/runtime/interpreter.py", line 1484, in __call__
    raise InterpreterError(repr(e)) from e
triton.runtime.errors.InterpreterError: AttributeError("'tensor' object has no attribute 'nonsense'")

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "{PACKAGES}/kvcheck/run/case.py", line 61, in run_case
    emission = _emit(job, target, device, folder)
  File "/home/me/kvcheck/kernel.py", line 20, in launch
    _kernel[(1,)](k, cache.k.codes, n=128)
  File "/usr/lib/python3.12/contextlib.py", line 80, in inner
  File "{PACKAGES}/torch/nn/modules/module.py", line 1, in __call__
    pass
triton.runtime.errors.InterpreterError: InterpreterError('AttributeError("...")')
"""


def test_own_frames_are_told_from_the_outermost_to_the_one_that_raised() -> None:
    """The cause is written first and lies deepest; the wrapper that triton's interpreter raises is left out."""
    assert told(INTERPRETED, 20) == (
        "/home/me/kvcheck/kernel.py:20, in launch\n"
        "    _kernel[(1,)](k, cache.k.codes, n=128)\n"
        "/home/me/kvcheck/kernel.py:12, in _kernel\n"
        "    y = helper(x, x)\n"
        "/home/me/kvcheck/kernel.py:7, in helper\n"
        "    return x + y.nonsense\n"
        "AttributeError: 'tensor' object has no attribute 'nonsense'\n"
        "(6 frames left out: kvcheck 1, Python 1, torch 1, triton 3)"
    )
    assert raised(INTERPRETED) == "AttributeError: 'tensor' object has no attribute 'nonsense'"


@pytest.mark.parametrize(
    ("file", "own"),
    [
        (f"{PACKAGES}/triton/runtime/jit.py", False),
        ("/src/triton/python/triton/compiler/code_generator.py", False),
        (f"{PACKAGES}/torch/_ops.py", False),
        (f"{PACKAGES}/kvcheck/api.py", False),
        ("/src/kvcheck/kvcheck/lowering/triton_launches.py", False),
        ("/usr/lib/python3.11/json/decoder.py", False),
        ("<frozen importlib._bootstrap>", False),
        (f"{PACKAGES}/conch/ops/cache.py", True),
        (f"{PACKAGES}/kvcheck/kernels/specimens/shared_pitch.py", True),
        ("/home/triton/my.py", True),
        ("/home/me/kvcheck/my_kernel/store.py", True),
    ],
)
def test_whose_code_a_file_is(file: str, own: bool) -> None:
    """An engine is the reader's; triton, torch, Python and kvcheck's plumbing are not."""
    trace = parse(f'Traceback (most recent call last):\n  File "{file}", line 3, in f\n    x\nKeyError: 1')
    assert trace is not None
    assert trace.own == ((Frame(file, 3, "f", "x"),) if own else ())


def test_a_message_of_several_lines_stays_whole() -> None:
    """A compile error quotes the kernel: its lines are the exception's."""
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n'
        "CompilationError: at 2:4:\ndef g():\n    bad\n    ^\nno such name"
    )
    assert told(text, 9) == "a.py:1, in f\n    g()\nCompilationError: at 2:4:\ndef g():\n    bad\n    ^\nno such name"
    trace = parse(text)
    assert trace is not None
    assert trace.exceptions == ("CompilationError: at 2:4:\ndef g():\n    bad\n    ^\nno such name",)


def test_text_without_a_traceback_or_own_frames_is_cut_as_it_is() -> None:
    """What a process printed last; a traceback that is nobody's but the frameworks'."""
    assert told("a\nb", 5) == "a\nb"
    assert parse("a\nb") is None
    foreign = 'Traceback (most recent call last):\n  File "<frozen x>", line 1, in f\nKeyError: 1'
    assert told(foreign, 5) == foreign
    assert raised("one\ntwo\n\n") == "two"
    assert raised(None) == ""


@given(st.integers(1, 40), st.integers(4, 30), st.integers(0, 3))
def test_never_more_lines_than_asked_for(frames: int, lines: int, foreign: int) -> None:
    """However deep the stack and whatever is folded; the innermost call and the exception are always there."""
    calls = "".join(f'  File "a.py", line {n}, in f{n}\n    source {n}\n' for n in range(frames))
    others = "".join(f'  File "/x/site-packages/torch/a{n}.py", line 1, in g\n    pass\n' for n in range(foreign))
    text = f"Traceback (most recent call last):\n{calls}{others}ValueError: no\n"
    made = told(text, lines).split("\n")
    assert len(made) <= lines
    assert "ValueError: no" in made
    assert f"    source {frames - 1}" in made


def test_what_torch_adds_to_every_error_of_cuda_is_left_out_of_one_line() -> None:
    """The line that says what happened is enough; the whole stays in the report."""
    advice = (
        "Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/cuda-runtime-api for more information.",
        "CUDA kernel errors might be asynchronously reported at some other API call.",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    )
    happened = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    for said in (advice, advice[1:]):
        error = "\n".join(
            ("Traceback (most recent call last):", '  File "k.py", line 3, in f', "    g()", happened, *said)
        )
        assert raised(error) == happened


FATAL = f"""a warning of the kernel's own
Fatal Python error: Segmentation fault

Thread 0x00007f8f1d6a9b00 (most recent call first):
  File "/home/me/kvcheck/waits.py", line 3 in wait

Current thread 0x00007f8f1d6a9b80 (most recent call first):
  File "{PACKAGES}/triton/runtime/interpreter.py", line 455 in create_masked_load
  File "/home/me/kvcheck/kernel.py", line 6 in far
  File "{PACKAGES}/triton/runtime/jit.py", line 370 in <lambda>
  File "/home/me/kvcheck/kernel.py", line 9 in launch
  File "{PACKAGES}/kvcheck/run/case.py", line 144 in launch
  File "<frozen runpy>", line 198 in _run_module_as_main

Extension modules: msgspec._core, torch._C (total: 2)
"""


def test_a_process_that_a_signal_ended_is_told_from_the_outermost_call_too() -> None:
    """Python writes its frames innermost first and without source; the other threads' are not the kernel's."""
    assert told(FATAL, 20) == (
        "/home/me/kvcheck/kernel.py:9, in launch\n"
        "/home/me/kvcheck/kernel.py:6, in far\n"
        "Fatal Python error: Segmentation fault\n"
        "(4 frames left out: Python 1, kvcheck 1, triton 2)"
    )
    assert raised(FATAL) == "Fatal Python error: Segmentation fault"


@pytest.mark.parametrize("end", ["  <no Python frame>\n", "  File garbage\n"])
def test_a_dump_without_the_readers_calls_is_told_whole(end: str) -> None:
    """Nothing is left out where nothing is known to be the reader's."""
    text = f"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n{end}"
    assert told(text, 20) == text.rstrip("\n")
    assert raised(text) == "Fatal Python error: Aborted"
