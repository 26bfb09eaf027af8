"""What judge and diagnosis take of one core: a case at default sizes, by stage, and how that grows with codes.

    python benchmarks/judging.py [REPORTS ...] [--every 4]
    python benchmarks/judging.py --growth [--most 2048]

Of REPORTS every kept emission (`cases/*.msgpack`, of failing cases) is judged again; without any, a part of the default
matrix is run with every specimen first. Beside them stand right cases: the reference store's over the same matrix.
Growth is measured on one case of ever more tokens, stored rightly and with one fault each, in numpy. All times are of
the process, not of the clock: a busy machine does not change them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from kvcheck.contract import Contract
from kvcheck.diagnose.diagnose import examine
from kvcheck.diagnose.facts import Facts
from kvcheck.diagnose.image import SourceMemory
from kvcheck.diagnose.side import offsets_of
from kvcheck.draw.image import prefill_rows
from kvcheck.emission import STORED, row_array
from kvcheck.formats import bits
from kvcheck.judge import judge
from kvcheck.matrix.load import load_cases
from kvcheck.run.protocol import EMISSION, Job
from kvcheck.schema import Case, Change, Emission, Launch, Verdict

STAGES = ("judge", "diagnosis", "all")
#: The part of the default matrix that is run where no reports are given: each case takes the specimens half a second.
SHARD = "1/24"


@dataclass(frozen=True)
class Took:
    """Milliseconds of one case's stages, and what was named first.

    `diagnosis` is that of which faults the case could have shown, too.
    """

    judge: float
    diagnosis: float
    named: str

    @property
    def all(self) -> float:
        """Both stages."""
        return self.judge + self.diagnosis


def main() -> int:
    """Measure and print; 1 where there is nothing to measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("reports", type=Path, nargs="*")
    parser.add_argument("--every", type=int, default=1, help="judge every N-th emission alone")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--most", type=int, default=2048, help="tokens of the largest case")
    asked = parser.parse_args()
    if asked.growth:
        _print_growth(asked.most)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        failing = _measured(_kept(asked.reports or [_run(Path(folder))]), asked.every)
    passing = _measured(_right(load_cases(["default"])), asked.every)
    for name, took in (("failing", failing), ("right", passing)):
        for line in _table(name, took):
            print(line)
    return 0 if failing and passing else 1


def took_of(emission: Emission) -> Took:
    """Judge and diagnose one emission, and time it."""
    began = time.process_time()
    verdict = judge(emission)
    judged = time.process_time()
    found, _ = examine(emission, verdict)
    ended = time.process_time()
    return Took((judged - began) * 1e3, (ended - judged) * 1e3, found[0].fault if found else "-")


def _measured(emissions: Iterator[Emission], every: int) -> list[Took]:
    return [took_of(emission) for index, emission in enumerate(emissions) if index % every == 0]


def _table(name: str, took: Sequence[Took]) -> Iterator[str]:
    yield f"{len(took)} {name} cases, ms a case on one core: median, 90th centile, worst"
    for stage in STAGES if took else ():
        each = np.array([getattr(one, stage) for one in took])
        yield f"  {stage:10s} {np.median(each):7.1f} {np.percentile(each, 90):7.1f} {each.max():7.1f}"


def _kept(folders: Sequence[Path]) -> Iterator[Emission]:
    for folder in folders:
        for file in sorted(folder.rglob("cases/*.msgpack")):
            yield msgspec.msgpack.decode(file.read_bytes(), type=Emission)


def _run(folder: Path) -> Path:
    command = [
        sys.executable, "-m", "kvcheck.cli.main", "matrix", "default", "--target", "specimen:*", "--shard", SHARD,
        "--out", str(folder),
    ]  # fmt: skip
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=sys.stderr)  # noqa: S603 - this program
    return folder


def _right(cases: Sequence[Case]) -> Iterator[Emission]:
    """What kvcheck's reference store leaves, in the form and under the contract of its own kernel."""
    import torch  # noqa: PLC0415 - a judge's process holds none

    from kvcheck.run.case import run_case  # noqa: PLC0415
    from kvcheck.targets.load import load  # noqa: PLC0415

    torch.set_num_threads(1)
    (loaded,) = load("store")
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            run_case(Job(0, "store", case, folder, 60.0, reference=True), loaded.target, torch.device("cpu"))
            made = Path(folder) / EMISSION
            if made.exists():
                yield msgspec.msgpack.decode(made.read_bytes(), type=Emission)


#: What a fault makes of one launch: the bytes of some tensors' addressed rows, and what it changes elsewhere.
Fault = Callable[[Facts, Launch], tuple[dict[str, bytes], tuple[Change, ...]]]


def _print_growth(most: int) -> None:
    """One line a size and fault.

    `n log n` is how much more time has come than n log n has grown by, of codes, since the last size: at most one where
    growth is no worse.
    """
    print("fault          codes       ms  n log n  named")
    sizes = [tokens for tokens in (1, 8, 64, 512, 2048, 8192) if tokens <= most]
    cases = [Case(tokens=tokens, heads=8, k_view="qkv", seed=1) for tokens in sizes]
    right = list(_right(cases))
    took_of(right[-1])  # so that no line pays for what is made once a process
    for name, fault in FAULTS.items():
        before: tuple[int, float] | None = None
        for emission in right:
            took, codes = took_of(_with(emission, fault)), emission.case.tokens * emission.case.heads * 128 * 2
            ratio = (took.all / before[1]) / (_n_log_n(codes) / _n_log_n(before[0])) if before else float("nan")
            print(f"{name:12s} {codes:7d} {took.all:8.1f} {ratio:8.2f}  {took.named}", flush=True)
            before = codes, took.all


def _n_log_n(codes: int) -> float:
    return float(codes * np.log2(codes))


def _with(emission: Emission, fault: Fault | None) -> Emission:
    """The emission of a kernel with a fault that is otherwise right."""
    if fault is None:
        return emission
    assert isinstance(emission.contract, Contract)
    facts = Facts(emission, emission.contract, Verdict("mismatch", ""))
    launches = []
    for launch in emission.launches:
        rows, changes = fault(facts, launch)
        launches.append(msgspec.structs.replace(launch, rows={**launch.rows, **rows}, changes=changes))
    return msgspec.structs.replace(emission, launches=tuple(launches))


def _shared_pitch(facts: Facts, launch: Launch) -> tuple[dict[str, bytes], tuple[Change, ...]]:
    """V is read with K's pitch."""
    k, v = (facts.emission.placement.get(tensor) for tensor in ("k", "v"))
    used = msgspec.structs.replace(v, strides=(k.strides[0], *v.strides[1:]))
    x = SourceMemory.of(facts.emission, launch.prefill, launch.poison).read(used)[facts.tokens]
    stored = facts.taken("v", x).stored
    assert stored.scale is not None
    return {"v_codes": stored.codes.tobytes(), "v_scales": stored.scale.tobytes()}, ()


def _toward_zero(facts: Facts, launch: Launch) -> tuple[dict[str, bytes], tuple[Change, ...]]:
    """Codes are rounded toward zero."""
    del launch
    scaled, _ = facts.own("v").scaled(facts.emitted("v"))
    return {"v_codes": bits.encode(scaled, rounding="rtz").tobytes()}, ()


def _unknown(facts: Facts, launch: Launch) -> tuple[dict[str, bytes], tuple[Change, ...]]:
    """Codes that no fault gives."""
    del facts
    codes = np.frombuffer(launch.rows["v_codes"], np.uint8)
    return {"v_codes": (codes ^ np.random.default_rng(0).integers(1, 64, codes.size, np.uint8)).tobytes()}, ()


def _moved(facts: Facts, launch: Launch) -> tuple[dict[str, bytes], tuple[Change, ...]]:
    """Every row is written one slot late: the first slot keeps its prefill, and the one behind the last changes."""
    emission, slots, rows, changes = facts.emission, facts.slots, {}, []
    for placed in (tensor for tensor in emission.placement.tensors if tensor.name in STORED):
        data = row_array(launch, placed, len(slots)).copy()
        behind = offsets_of(placed, slots[-1:] + 1).reshape(-1)
        changes.append(Change(placed.allocation, int(behind[0]), data[-1].tobytes()))
        data[1:] = data[:-1].copy()
        due = offsets_of(placed, slots[:1])
        data[:1] = prefill_rows(emission.placement, emission.case, placed.name, due, launch.prefill)
        rows[placed.name] = data.tobytes()
    return rows, tuple(changes)


FAULTS: dict[str, Fault | None] = {
    "none": None,
    "shared-pitch": _shared_pitch,
    "toward-zero": _toward_zero,
    "unknown": _unknown,
    "moved": _moved,
}

if __name__ == "__main__":
    sys.exit(main())
