"""What the results of a run depend on: where any of it differs, no earlier result counts."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

import kvcheck
from kvcheck.matrix.ids import case_id
from kvcheck.run.options import Options
from kvcheck.run.protocol import Hello, TargetInfo
from kvcheck.schema import Case


def key_of(info: TargetInfo, hello: Hello, cases: Sequence[Case], options: Options) -> dict[str, str]:
    """Each part that results depend on, by its name; long ones as a hash.

    The cases are named with their number and order. kvcheck is named by its own source, not by its version alone: a
    judge that has changed says anew what is right.
    """
    settings = {
        "timeout": options.timeout,
        "require-native": options.require_native,
        "expect-declared": options.expect_declared,
        "repeat": options.repeat,
    }
    return {
        "target": info.name,
        "kernels": info.kernels_sha256,
        "engine files": _hash(info.engine_files),
        "versions": info.version or "",
        "contract": _hash(info.contract),
        "form": _hash((info.form, info.accepts, info.refuses, info.declares, info.missing)),
        "environment": _hash(sorted(hello.environment.items())),
        "arch": hello.arch,
        "execution": info.execution,
        "cases": _hash([(case_id(case), case) for case in cases]),
        "options": _hash(settings),
        "kvcheck": f"{kvcheck.__version__} {_own_sha256()}",
    }


def _hash(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()


@functools.cache
def _own_sha256() -> str:
    """The hex sha256 over kvcheck's own source files, named without their folder."""
    root = Path(kvcheck.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root)}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()
