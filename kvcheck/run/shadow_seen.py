"""What shadow memory has seen of a case, as its child wrote it down. No torch in here: the run itself reads this."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvcheck.run.protocol import SHADOW
from kvcheck.schema import SanitizerRun


def read(folder: Path) -> SanitizerRun:
    """What shadow memory saw of the case whose child wrote to `folder`: inconclusive where there is nothing to read."""
    try:
        return msgspec.msgpack.decode((folder / SHADOW).read_bytes(), type=SanitizerRun)
    except FileNotFoundError:
        return cannot("", "the case ended before shadow memory could say what it saw")
    except (OSError, msgspec.MsgspecError) as error:
        return cannot("", f"what shadow memory wrote cannot be read: {error}")


def cannot(layout: str, reason: str) -> SanitizerRun:
    """A run under shadow memory of which nothing can be said, and why."""
    return SanitizerRun(tool="shadow", memory=layout, way="interpreted", state="inconclusive", reason=reason)
