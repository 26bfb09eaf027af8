"""Where matrix files lie: a path, or the name of one that kvcheck ships."""

from __future__ import annotations

import difflib
from pathlib import Path

from kvcheck.errors import MatrixError


def shipped() -> Path:
    """Return the folder of shipped matrices: beside the package in a checkout, else inside the installed package."""
    package = Path(__file__).parent.parent
    checkout = package.parent
    return checkout / "matrices" if (checkout / "pyproject.toml").is_file() else package / "matrices"


def names() -> tuple[str, ...]:
    """Return the names of the shipped matrices, sorted."""
    return tuple(sorted(path.stem for path in shipped().glob("*.toml")))


def find(file: str | Path) -> Path:
    """Return the path of a matrix: `file` where it is one, else the shipped `seed` of `seed` or `matrices/seed.toml`.

    Raises MatrixError where there is neither.
    """
    path = Path(file)
    if _exists(path) and not path.is_dir():
        return path
    folder, name = path.parent.as_posix(), path.name.removesuffix(".toml")
    if folder in (".", "matrices") and name in names():
        return shipped() / f"{name}.toml"
    if _exists(path):
        raise MatrixError(f"{file}: is a directory; expected a TOML file")
    near = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the shipped ones are {', '.join(names()) or 'none'}"
    raise MatrixError(f"{file}: no such matrix file; {hint}")


def _exists(path: Path) -> bool:
    """Say whether there is something at `path`; not where the path itself is impossible (a name too long)."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
