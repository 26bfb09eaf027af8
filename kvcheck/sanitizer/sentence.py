"""A record in one sentence: the tool, the line, what is done there and to whose memory, how often."""

from __future__ import annotations

from pathlib import PurePath

from kvcheck.schema import SanitizerRecord


def sentence(record: SanitizerRecord) -> str:
    """`shadow: store.py:98 reads 768 to 10 750 bytes past the end of V …: 1920 accesses: value = tl.load(…)`."""
    where = f"{PurePath(record.file).name}:{record.line} " if record.file else ""
    often = "" if record.count == 1 else f", {record.count} accesses"
    source = f": {record.source}" if record.source else ""
    return f"{record.tool}: {where}{record.says}{often}{source}"
