"""What a process of its own for every case costs, against the least that it could cost, all in one run.

`python benchmarks/isolation.py [--cases 300] [-j 8] [--fresh 24] [--alone 6]`. On a GPU the floor is a process that
does nothing but `cuInit` and retain the primary context, as many at a time; without one it is two bare processes at
once, making the same launches in a loop: in Triton's interpreter as it is shipped, which is what anybody would have,
and, said beside it, in the corrected and faster one that kvcheck makes of it. The start of what stays for a whole run
is left out: of the nursery and the judges, and of the two bare ones. Fresh processes are measured on a sample, and
scaled to all cases: said. They are a script's that loads the target and runs one case, as anybody would start one for
each; beside it, kvcheck's own fresh interpreters, whose imports it has made quicker.
`--growth` measures, in place of all this, one case at 8 to 131072 tokens, and 100, 1 000 and 5 000 one-token cases.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import msgspec

from kvcheck.run.cold import run_fresh
from kvcheck.run.judges import Judges
from kvcheck.run.options import Options
from kvcheck.run.pool import SINGLE_THREAD, Nursery
from kvcheck.run.protocol import EMISSION, Job
from kvcheck.run.session import run_target
from kvcheck.schema import Case

SEED = Case(k_view="qkv", k_values="normal*5", v_values="normal*0.01")
ONE = Case(tokens=1, heads=1)

#: Seconds that a case may take: of 131072 tokens in Triton's interpreter, a quarter of an hour.
TIMEOUT = 1800.0


def several(case: Case, count: int) -> list[Case]:
    """Cases of one shape, of other values each."""
    return [replaced(case, seed=seed) for seed in range(count)]


def replaced(case: Case, **axes: int) -> Case:
    """The case with other values of some axes."""
    return msgspec.structs.replace(case, **axes)


def floor_of_contexts(count: int, jobs: int) -> float:
    """Seconds for `count` processes that make a context and end, `jobs` at a time, forked from this small one."""
    cuda = ctypes.CDLL("libcuda.so.1")
    began = time.perf_counter()
    running = failed = 0
    for _ in range(count):
        if running == jobs:
            failed += bool(os.wait()[1])
            running -= 1
        if os.fork() == 0:
            context = ctypes.c_void_p()
            os._exit(bool(cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)))
        running += 1
    for _ in range(running):
        failed += bool(os.wait()[1])
    if failed:
        print(f"{failed} OF {count} BARE CONTEXTS FAILED")
    return time.perf_counter() - began


def floor_of_loops(case: Case, count: int, interpreter: str) -> float:
    """Seconds for the launches of `count` cases in two bare processes at once, half each; their start left out.

    `interpreter` is Triton's as `shipped`, or kvcheck's `own`. NaN where they fail, as the shipped one of some
    versions does: said.
    """
    command = [sys.executable, __file__, "--bare", interpreter, f"{case.tokens},{case.heads}", str(count // 2)]
    env = {**os.environ, **SINGLE_THREAD, "TRITON_INTERPRET": "1"}
    both = [
        subprocess.Popen(  # noqa: S603
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for one in both:
        assert one.stdout is not None
        one.stdout.readline()
    began = time.perf_counter()
    for one in both:
        assert one.stdin is not None
        one.stdin.close()
        one.stdin = None  # `communicate` would flush it
    said = [one.communicate()[1] for one in both]
    taken = time.perf_counter() - began
    if any(one.returncode for one in both):
        print(f"BARE LOOPS IN THE INTERPRETER ({interpreter}) FAILED: {''.join(said).strip().splitlines()[-1]}")
        return math.nan
    return taken


def bare(interpreter: str, shape: str, count: int) -> int:
    """Make three launches a case in a loop, on memory that is placed once: nothing is filled, kept or judged."""
    import torch  # noqa: PLC0415

    from kvcheck.draw.image import case_inputs, images  # noqa: PLC0415
    from kvcheck.kernels.store import store  # noqa: PLC0415
    from kvcheck.lowering.interpreter_cast import install  # noqa: PLC0415
    from kvcheck.memory.arena import Memory  # noqa: PLC0415
    from kvcheck.memory.place import place  # noqa: PLC0415
    from kvcheck.run.case import caller  # noqa: PLC0415

    if interpreter == "own":
        install("sm_90")
    tokens, heads = map(int, shape.split(","))
    case = replaced(SEED if tokens > 1 else ONE, tokens=tokens, heads=heads)
    placement = place(case, store.contract, store.form, store.accepts, cuda=False)
    memory = Memory(placement, torch.device("cpu"))
    memory.upload(images(placement, case, store.contract, "A", "A"))
    call = caller(store, case, memory, placement, case_inputs(placement, case, store.contract))
    call()
    print("ready", flush=True)
    sys.stdin.read()
    for _ in range(3 * count):
        call()
    return 0


def isolated(nursery: Nursery, cases: Sequence[Case], jobs: int) -> float:
    """Seconds for all cases in a process each, placed, launched three times, judged. A few go ahead: they compile."""
    options = Options(device="auto", jobs=jobs, timeout=TIMEOUT)
    with Judges(max(1, len(os.sched_getaffinity(0)) // 2)) as judges:
        ahead = several(msgspec.structs.replace(cases[0], tokens=1), 2 * jobs)
        for todo in (ahead, cases):
            began = time.perf_counter()
            results = run_target(nursery, nursery.hello.targets[0], todo, options, lambda _: None, judges=judges)
            taken = time.perf_counter() - began
    outcomes = Counter(result.outcome for result in results)
    if outcomes != {"pass": len(cases)}:
        print(f"NOT ALL PASSED: {dict(outcomes)}")
    return taken


def fresh(nursery: Nursery, cases: Sequence[Case], jobs: int, *, own: bool = False) -> float:
    """Seconds for all cases in a fresh process each, `jobs` at a time: a script's, or kvcheck's `own`. Not judged."""
    name = nursery.hello.targets[0].name
    with tempfile.TemporaryDirectory() as root:
        todo = [Job(number, name, case, f"{root}/{number}", 60.0) for number, case in enumerate(cases)]
        for job in todo:
            Path(job.folder).mkdir()
        began = time.perf_counter()
        if own:
            run_fresh(nursery, todo, at_a_time=jobs)
        else:
            with ThreadPoolExecutor(jobs) as pool:
                list(pool.map(lambda job: scripted(nursery, job), todo))
        taken = time.perf_counter() - began
        if not all((Path(job.folder) / EMISSION).exists() for job in todo):
            print("NOT EVERY FRESH PROCESS LEFT AN EMISSION")
    return taken


def scripted(nursery: Nursery, job: Job) -> None:
    """Run a job in a process of its own that is started as any script is."""
    hello = nursery.hello
    command = [sys.executable, __file__, "--script", nursery.spec, "cuda" if hello.cuda else "cpu", hello.arch]
    subprocess.run(  # noqa: S603 - this very file
        command, input=msgspec.json.encode(job), env=nursery.environment(), stdout=subprocess.DEVNULL, check=False
    )


def script(spec: str, device: str, arch: str) -> int:
    """Load a target and run the job on standard input, in this process, which does nothing else."""
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    import torch  # noqa: PLC0415 - the interpreter is chosen first

    from kvcheck.lowering.interpreter_cast import install  # noqa: PLC0415
    from kvcheck.run.case import run_case  # noqa: PLC0415
    from kvcheck.targets.load import load  # noqa: PLC0415

    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    (target,) = [one.target for one in load(spec) if one.target.name == job.target]
    if device == "cpu":
        install(arch)
    run_case(job, target, torch.device("cuda", 0) if device == "cuda" else torch.device("cpu"))
    return 0


def peak() -> float:
    """This process's largest resident size so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def growth(nursery: Nursery, jobs: int, longest: int, counts: Sequence[int]) -> None:
    """Print seconds against tokens and against the number of cases, with this process's peak memory."""
    for tokens in (8, 128, 2048, 16384, 131072):
        if tokens <= longest:
            print(f"{tokens:7} tokens      {isolated(nursery, [replaced(SEED, tokens=tokens)], jobs):9.2f} s")
    for count in counts:
        taken = isolated(nursery, several(ONE, count), jobs)
        print(f"{count:7} cases       {taken:9.2f} s  {taken / count * 1000:7.1f} ms a case, peak {peak():.0f} MB")


def _floor(case: Case, asked: argparse.Namespace, *, cuda: bool) -> float:
    """Seconds a case at the floor."""
    count = asked.floor or asked.cases
    return (floor_of_contexts(count, asked.jobs) if cuda else floor_of_loops(case, count, "shipped")) / count


def compare(name: str, nursery: Nursery, case: Case, asked: argparse.Namespace) -> None:
    """Print one shape's seconds a case, and their ratios to the floor and to fresh interpreters."""
    cuda, count, jobs = nursery.hello.cuda, asked.cases, asked.jobs
    cases = several(case, count)
    isolated(nursery, cases[:2], jobs)  # compiles
    floor = _floor(case, asked, cuda=cuda)
    taken = isolated(nursery, cases, jobs)
    again = _floor(case, asked, cuda=cuda)
    print(f"{name}: {count} cases, {jobs} at a time")
    kind = "bare contexts" if cuda else "bare loops"
    said = f"ms a case, before and after, of {asked.floor or count}"
    print(f"  floor, {kind:14} {floor * 1000:8.1f} and {again * 1000:.1f} {said}")
    ratio = taken / count * 2 / (floor + again)
    print(f"  kvcheck               {taken / count * 1000:8.1f} ms a case; {ratio:.2f} x the floor")
    if not cuda:
        own = floor_of_loops(case, asked.floor or count, "own") / (asked.floor or count)
        print(f"  loops in its own      {own * 1000:8.1f} ms a case; kvcheck takes {taken / count / own:.2f} x that")
    for some, at_once in ((asked.fresh, jobs), (asked.alone, 1)):
        for own, whose in ((False, "fresh"), (True, "its own fresh")) if some else ():
            each = fresh(nursery, cases[:some], at_once, own=own) / some
            said = f"ms a case, of {some}; {each * count / taken:.1f} x"
            print(f"  {f'{whose}, {at_once} at once':25}{each * 1000:7.1f} {said}")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("-j", "--jobs", type=int, default=min(8, len(os.sched_getaffinity(0))))
    parser.add_argument("--floor", type=int, default=0, help="processes of the floor, each time; 0: as many as cases")
    parser.add_argument("--fresh", type=int, default=24)
    parser.add_argument("--alone", type=int, default=6)
    parser.add_argument("--seed-only", action="store_true", help="leave out the cases of one token and one head")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--longest", type=int, default=131072, help="tokens of the longest case of --growth")
    parser.add_argument(
        "--counts", type=int, nargs="*", default=(100, 1000, 5000), help="cases of one token of --growth"
    )
    parser.add_argument("--bare", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--script", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bare:
        return bare(asked.bare[0], asked.bare[1], int(asked.bare[2]))
    if asked.script:
        return script(*asked.script)
    began = time.perf_counter()
    with Nursery("store", replace(Options(), jobs=asked.jobs)) as nursery:
        facts = nursery.hello.environment
        print(f"{facts['gpu'] or 'no GPU'}, torch {facts['torch']}, triton {facts['triton']}", end="; ")
        print(f"the nursery was ready after {time.perf_counter() - began:.1f} s")
        if asked.growth:
            growth(nursery, asked.jobs, asked.longest, asked.counts)
            return 0
        compare("seed's geometry", nursery, SEED, asked)
        if not asked.seed_only:
            compare("one token, one head", nursery, ONE, replace_fresh(asked))
    print(f"peak of the parent {peak():.0f} MB")
    return 0


def replace_fresh(asked: argparse.Namespace) -> argparse.Namespace:
    """What was asked, without the fresh interpreters: their cost has nothing to do with the shape."""
    return argparse.Namespace(**{**vars(asked), "fresh": 0, "alone": 0})


if __name__ == "__main__":
    raise SystemExit(main())
