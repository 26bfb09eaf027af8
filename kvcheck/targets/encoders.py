"""From `file.py[::name]` to the encoder targets that the file declares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kvcheck.api import EncoderTarget
from kvcheck.errors import TargetError
from kvcheck.formats.spec import Policy, find_format, policy_error
from kvcheck.targets.load import _import_file


@dataclass(frozen=True)
class LoadedEncoder:
    """An encoder target, and the module it is declared in."""

    target: EncoderTarget
    module: ModuleType


def check_spec(spec: str) -> None:
    """Raise TargetError, one line, unless `spec` names an existing file. Imports nothing."""
    path, _, _ = spec.partition("::")
    if not path.endswith(".py"):
        raise TargetError(f"target {spec!r}: expected FILE.py[::NAME] of a function under @kvcheck.encoder_target")
    if not Path(path).is_file():
        raise TargetError(f"target {spec!r}: there is no file {path}")


def load_encoders(spec: str) -> tuple[LoadedEncoder, ...]:
    """Every encoder target of `file.py`, or the one of `file.py::name`.

    Raises TargetError; MissingEngineError for a file that imports what is not installed.
    """
    check_spec(spec)
    path, _, wanted = spec.partition("::")
    module = _import_file(spec, Path(path))
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, EncoderTarget) and value.function.__module__ == module.__name__
    ]
    if not found:
        raise TargetError(
            f"target {spec!r}: {path} declares no encoder; expected functions under @kvcheck.encoder_target"
        )
    chosen = [each for each in found if not wanted or wanted in (each.name, each.function.__name__)]
    if not chosen:
        raise TargetError(
            f"target {spec!r}: {path} has no encoder {wanted!r}; it has {', '.join(e.name for e in found)}"
        )
    for each in chosen:
        error = policy_error(find_format(each.contract.format), policy_of(each))
        if error is not None:
            raise TargetError(f"target {each.name!r}: contract: {error}")
    return tuple(LoadedEncoder(each, module) for each in chosen)


def policy_of(target: EncoderTarget) -> Policy:
    """What its codes are held against. What is undefined is not compared, and stands as the usual policy here."""
    contract = target.contract
    return Policy(
        contract.rounding,
        "saturate" if contract.overflow == "undefined" else contract.overflow,
        "canonical" if contract.nan == "undefined" else contract.nan,
        contract.negative_zero,
    )
