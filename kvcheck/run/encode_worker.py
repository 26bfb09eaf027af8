"""The process behind `kvcheck encode`: encoders of one arch, on the GPU or in the interpreter.

Started as `python -m kvcheck.run.encode_worker`, with a request on standard input and the arch in the environment,
because Triton chooses it, and the interpreter, once. The answer goes to what was standard output.
"""

from __future__ import annotations

import os
import sys

import msgspec

from kvcheck.run.encode_protocol import EncodeRequest
from kvcheck.run.imports import uncollected
from kvcheck.run.shield import shielded


def main() -> None:
    """Read a request, answer it, and end."""
    shielded()
    answers = os.dup(1)
    os.dup2(2, 1)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=EncodeRequest)
    with uncollected():
        from kvcheck.run.encode_answer import answer  # noqa: PLC0415 - imports torch and triton
    with os.fdopen(answers, "wb") as pipe:
        pipe.write(msgspec.json.encode(answer(request)))
    os._exit(0)  # Python takes half a second to take torch down


if __name__ == "__main__":
    main()
