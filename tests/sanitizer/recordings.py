"""What compute-sanitizer 2025.3.1 left behind on an H200, of the programs in `data/k.cu`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parent / "data"


class Left(NamedTuple):
    """One run: the records as saved, None where no file was; the text; the exit status, None where it was killed."""

    tool: str
    xml: bytes | None
    text: str
    exit: int | None
    logged: bool
    """Whether the text is the tool's log. Else it is what it and the program printed."""


def recorded() -> dict[str, Left]:
    """Every run, by name."""
    index = json.loads((DATA / "index.json").read_text(encoding="utf-8"))
    return {name: _left(name, each) for name, each in index.items()}


def _left(name: str, how: dict[str, object]) -> Left:
    xml, text = DATA / f"{name}.xml", DATA / f"{name}.txt"
    status = how["exit"]
    return Left(
        str(how["tool"]), xml.read_bytes() if xml.exists() else None, text.read_text(encoding="utf-8"),
        status if isinstance(status, int) else None, bool(how["logged"]),
    )  # fmt: skip
