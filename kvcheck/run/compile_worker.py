"""The process behind `compile_facts`: loads a target once, and compiles its launches in a child for every arch.

Started as `python -m kvcheck.run.compile_worker`, with a request on standard input; the answer goes to what was
standard output. Nothing is launched. A compiler that crashes takes only its arch's child with it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from kvcheck.api import LoadTarget, Target
from kvcheck.errors import KvcheckError, Refused
from kvcheck.lowering.compile_facts import CompileAnswer, CompileRequest
from kvcheck.lowering.facts import CompileFact
from kvcheck.lowering.messages import described, one_line
from kvcheck.lowering.offline import compiling
from kvcheck.run.imports import uncollected
from kvcheck.run.scratch import scratch
from kvcheck.schema import Case
from kvcheck.targets.engine import add_engine_roots
from kvcheck.targets.load import load

_FACTS = msgspec.json.Decoder(tuple[CompileFact, ...])


def main() -> None:
    """Read a request, answer it, and end."""
    answers = os.dup(1)
    os.dup2(2, 1)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=CompileRequest)
    with os.fdopen(answers, "wb") as pipe:
        pipe.write(msgspec.json.encode(_answer(request)))
    os._exit(0)  # Python takes half a second to take torch down


def _answer(request: CompileRequest) -> CompileAnswer:
    add_engine_roots()
    try:
        with uncollected():
            loaded = load(request.spec)
    except KvcheckError as error:
        return CompileAnswer(error=str(error))
    targets = [one.target for one in loaded]
    found = [fact for arch in request.archs for fact in _in_child(arch, targets, request.cases)]
    return CompileAnswer(tuple(found))


def _in_child(arch: str, targets: list[Target], cases: tuple[Case, ...]) -> tuple[CompileFact, ...]:
    """The facts of one arch, found in a forked child."""
    with scratch() as folder:
        answer, log = folder / "facts.json", folder / "log.txt"
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                file = os.open(log, os.O_WRONLY | os.O_CREAT)
                os.dup2(file, 2)
                os.dup2(file, 1)
                answer.write_bytes(msgspec.json.encode(_with_log(_compile(arch, targets, cases), log)))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if answer.exists():
            with contextlib.suppress(msgspec.DecodeError):
                return _FACTS.decode(answer.read_bytes())
    error = f"the compiler ended its process with status {status}: {one_line(text)}"
    return (CompileFact(arch, "", "failed", error=error, log=text[-4000:]),)


def _compile(arch: str, targets: list[Target], cases: tuple[Case, ...]) -> tuple[CompileFact, ...]:
    """The facts of one arch, in this process."""
    reasons: list[str] = []
    with compiling(arch) as facts:
        for target in targets:
            for case in cases:
                reason = _call(target, case)
                reasons += [reason] if reason else []
    found = merged(facts)
    if found or not (reasons or cases):
        return found
    return (CompileFact(arch, "", "none", error=reasons[0] if reasons else "the target launched no Triton kernel"),)


def _call(target: Target, case: Case) -> str | None:
    """Call a target on the CPU's memory, its launches being compiled only. Why it could not be called, or None."""
    import torch  # noqa: PLC0415 - the request is read before anything slow

    from kvcheck.draw.image import case_inputs, images  # noqa: PLC0415
    from kvcheck.memory.arena import Memory  # noqa: PLC0415
    from kvcheck.memory.cache import build_cache, build_output  # noqa: PLC0415
    from kvcheck.memory.forms import Unplaceable  # noqa: PLC0415
    from kvcheck.memory.place import place  # noqa: PLC0415
    from kvcheck.targets.limits import outside_limits  # noqa: PLC0415

    contract = target.contract
    try:
        placement = place(case, contract, target.form, target.accepts, cuda=False)
        outside = outside_limits(case, contract, target.accepts, target.form, placement)
        if outside is not None:
            return outside
        memory = Memory(placement, torch.device("cpu"))
        memory.upload(images(placement, case, contract, "A", "A"))
        cache = build_cache(memory, placement, case, contract, target.form, case_inputs(placement, case, contract))
        slots = memory.tensor(placement.get("slots"))
        if isinstance(target, LoadTarget):
            target(slots, cache, build_output(memory, placement))
        else:
            target(memory.tensor(placement.get("k")), memory.tensor(placement.get("v")), slots, cache)
    except (Unplaceable, Refused) as reason:
        return str(reason)
    except Exception as error:  # noqa: BLE001 - an engine that wants a GPU here, or what a failed launch left behind
        return described(error)
    return None


def merged(facts: Iterable[CompileFact]) -> tuple[CompileFact, ...]:
    """Equal facts as one with their number, in the order of the first of each."""
    counts = Counter(msgspec.json.encode(fact) for fact in facts)
    return tuple(
        msgspec.structs.replace(msgspec.json.decode(data, type=CompileFact), launches=count)
        for data, count in counts.items()
    )


def _with_log(facts: tuple[CompileFact, ...], log: Path) -> tuple[CompileFact, ...]:
    """Failures whose exception says little, with what the compiler printed itself."""
    printed = log.read_text(encoding="utf-8", errors="replace")
    line = one_line(printed)
    return tuple(
        msgspec.structs.replace(fact, error=f"{fact.error}: {line}", log=(fact.log + "\n" + printed)[:4000])
        if fact.outcome == "failed" and "PassManager" in fact.error and line
        else fact
        for fact in facts
    )


if __name__ == "__main__":
    main()
