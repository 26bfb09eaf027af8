"""What a tool saw of one launch, from what tool and launch left behind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kvcheck.run.compute_sanitizer import FOUND, Output
from kvcheck.run.replayed import Played
from kvcheck.sanitizer.attribute import attribute
from kvcheck.sanitizer.ending import Ending, counted, doubt
from kvcheck.sanitizer.text_records import parse_text
from kvcheck.sanitizer.xml_records import DamagedError, Records, parse
from kvcheck.schema import SanitizerAccess, SanitizerKind, SanitizerRun

#: Kernels of torch's own, by the namespace of their names in full: what a target has torch do is not under test.
_TORCH = re.compile(r"(?:\w+ )*(?:at|c10|at_cuda_detail)::|_ZN(?:2at|3c10|14at_cuda_detail)")

#: What is wrong whoever does it: torch goes past a tensor's end where the target hands it a tensor that is none.
_WHOEVER: frozenset[SanitizerKind] = frozenset({"out-of-bounds", "misaligned"})

#: Characters of a kernel's name: torch's are long.
_LONGEST = 120


def saw(played: Played, blank: SanitizerRun, expected: Mapping[str, bytes] | None) -> SanitizerRun:
    """What a tool says of a launch, as `blank`, which names tool, layout and way, filled in.

    `expected` are the rows that the launch must leave, where those of the isolated run were right: one that leaves
    others was not the same launch, and nothing that a tool did not see of it says anything.
    """
    output = played.output
    ending = Ending(output.exit, output.text, FOUND, output.logged)
    try:
        found = parse(output.xml, output.tool)
        why = doubt(ending, len(found.accesses))
    except DamagedError as error:
        # What it printed is not all that it found, and never clean; of what it has, the line is worth telling.
        found = parse_text(output.text, output.tool) if output.logged else Records((), ())
        why = doubt(ending, counted(output.text) or 0) or str(error)
    names = _in_full(found.accesses, output)
    mine = tuple(one for one, name in zip(found.accesses, names, strict=True) if not _by_torch(one, name))
    left_out = _left_out(name for one, name in zip(found.accesses, names, strict=True) if _by_torch(one, name))
    if not why and not mine:
        why = played.problem or _unclear(left_out, found.unknown) or _other_rows(played, expected)
    records = attribute(mine, played.scene.placement, played.bases, played.scene.rows, played.others)
    return msgspec.structs.replace(
        blank,
        state="records" if records else ("inconclusive" if why else "clean"),
        reason=why or (played.problem if records else ""),
        records=records,
        counted=counted(output.text) or 0,
        seconds=round(output.seconds, 4),
        unknown=found.unknown,
        left_out=left_out,
    )


def _in_full(saved: Sequence[SanitizerAccess], output: Output) -> tuple[str, ...]:
    """The kernel of each saved record with its namespace, which is in the printed one alone; else as it was saved."""
    printed = parse_text(output.text, output.tool).accesses if output.logged else ()
    same = [(one.address, one.line, one.block, one.thread) for one in saved]
    if same != [(one.address, one.line, one.block, one.thread) for one in printed]:
        return tuple(one.kernel for one in saved)
    return tuple(one.kernel for one in printed)


def _by_torch(access: SanitizerAccess, name: str) -> bool:
    return access.kind not in _WHOEVER and _TORCH.match(name) is not None


def _left_out(names: Iterable[str]) -> tuple[str, ...]:
    """`3 records of at::native::copy`, a kernel each, the most records first."""
    return tuple(
        f"{count} record{'s' if count > 1 else ''} of {name[:_LONGEST]}" for name, count in Counter(names).most_common()
    )


def _unclear(left_out: Sequence[str], unknown: Sequence[str]) -> str:
    """Why a run without records of the kernels under test is not clean all the same; empty where nothing speaks so."""
    if left_out:
        # What torch has copied counts as stored: the kernel under test then reads it without a word of the tool's.
        return f"all that it has are {', '.join(left_out)}: torch's own, which may hide what the kernels under test do"
    if unknown:
        return f"the saved records hold what kvcheck does not know: {unknown[0]}"
    return ""


def _other_rows(played: Played, expected: Mapping[str, bytes] | None) -> str:
    """Why a launch that no record is of was not the isolated run's; empty where it was, or nobody knows."""
    if expected is None or played.rows is None:
        return ""
    for name, rows in expected.items():
        if played.rows.get(name) != rows:
            return f"made under the tool, the launch left other bytes in {name} than in the isolated run"
    return ""
