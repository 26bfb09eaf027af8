"""What a tool saw of one launch, from what tool and launch left behind."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kvcheck.run.compute_sanitizer import FOUND
from kvcheck.run.replayed import Played
from kvcheck.sanitizer.attribute import attribute
from kvcheck.sanitizer.ending import Ending, counted, doubt
from kvcheck.sanitizer.xml_records import DamagedError, Records, parse
from kvcheck.schema import SanitizerAccess, SanitizerRun

#: Kernels of torch's own: what a target has torch do is not under test.
_TORCH = ("at::native", "at_cuda_detail", "at6native", "_ZN2at")


def saw(played: Played, blank: SanitizerRun, expected: Mapping[str, bytes] | None) -> SanitizerRun:
    """What a tool says of a launch, as `blank`, which names tool, layout and way, filled in.

    `expected` are the rows that the launch must leave, where those of the isolated run were right: one that leaves
    others was not the same launch, and nothing that a tool did not see of it says anything.
    """
    output = played.output
    ending = Ending(output.exit, output.text, FOUND)
    try:
        found = parse(output.xml, output.tool)
        why = doubt(ending, len(found.accesses))
    except DamagedError as error:
        found, why = Records((), ()), doubt(ending, 0) or str(error)
    mine = tuple(one for one in found.accesses if not _by_torch(one))
    if not why and not mine:
        why = played.problem or _other_rows(played, expected)
    records = attribute(mine, played.scene.placement, played.bases, played.scene.rows, played.others)
    return msgspec.structs.replace(
        blank,
        state="records" if records else ("inconclusive" if why else "clean"),
        reason=why or (played.problem if records else ""),
        records=records,
        counted=counted(output.text) or 0,
        seconds=round(output.seconds, 4),
        unknown=found.unknown,
    )


def _by_torch(access: SanitizerAccess) -> bool:
    return any(name in access.kernel for name in _TORCH)


def _other_rows(played: Played, expected: Mapping[str, bytes] | None) -> str:
    """Why a launch that no record is of was not the isolated run's; empty where it was, or nobody knows."""
    if expected is None or played.rows is None:
        return ""
    for name, rows in expected.items():
        if played.rows.get(name) != rows:
            return f"made under the tool, the launch left other bytes in {name} than in the isolated run"
    return ""
