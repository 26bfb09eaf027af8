"""A first adapter for a kernel of one's own: a file that runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

from kvcheck.errors import TargetError

#: The adapter is a module of kvcheck's, so that it is linted and tested like any; its target has this name there.
TEMPLATE = Path(__file__).parent.parent / "kernels" / "template.py"
NAME = "my-kernel"

_ACCEPTED = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*\Z")


def write_adapter(name: str, folder: Path) -> Path:
    """Write an adapter for a target of that name, `my_kernel.py` for `my-kernel`, and return its path.

    Raises TargetError for a name that is none, and where the file is there already: it may be somebody's work.
    """
    if not _ACCEPTED.match(name):
        raise TargetError(f"target {name!r}: expected lower-case words joined by dashes, as in my-kernel")
    path = folder / f"{name.replace('-', '_')}.py"
    text = TEMPLATE.read_text(encoding="utf-8")
    text = text.replace("--target FILE", f"--target {path.name}").replace(
        "What `kvcheck targets --new` writes", "An adapter"
    )
    text = text.replace(NAME, name).replace("def my_kernel", f"def {name.replace('-', '_')}")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise TargetError(f"{path} was not written: {error.strerror}") from error
    return path
