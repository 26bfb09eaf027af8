"""compute-sanitizer's outputs, put together from the parts that it writes."""

from __future__ import annotations

from collections.abc import Iterable

HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<ComputeSanitizerOutput>'
TAIL = "</ComputeSanitizerOutput>\n"
LOAD = "/kernels/store.py"


def record(  # noqa: PLR0913 - a record is these parts
    text: str,
    *,
    address: int | None = None,
    size: int = 2,
    direction: str = "read",
    block: int = 0,
    thread: int = 0,
    kernel: str = "store_kernel",
    line: int = 58,
    kind: str = "Precise",
    more: str = "",
) -> str:
    """One record."""
    where = f"<address>0x{address:x}</address>" if address is not None else ""
    return f"""<record><kind>{kind}</kind><level>Error</level>
<who><threadIdx><x>{thread}</x><y>0</y><z>0</z></threadIdx><blockIdx><x>{block}</x><y>0</y><z>0</z></blockIdx></who>
<what><text>{text}</text><space>__global__</space><size>{size}</size><direction>{direction}</direction>{where}</what>
<where><func>{kernel}</func><path>{LOAD}</path><line>{line}</line><pc>0xe0</pc></where>{more}</record>"""


def saved(records: Iterable[str] = ()) -> bytes:
    """A whole file."""
    return (HEAD + "".join(records) + TAIL).encode()


def printed(count: int, words: str = "errors") -> str:
    """What is printed with it."""
    return f"========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: {count} {words}\n"
