"""The command that repeats a case."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.report.repeat import repeat

from .samples import PASS, TARGET, report


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("kvcheck matrix", "kvcheck matrix --select 3fa9c1 --out repeat"),
        ("kvcheck matrix --select 'tokens=9 and k_view=qkv' -j 4", "kvcheck matrix -j 4 --select 3fa9c1 --out repeat"),
        ("kvcheck matrix --select=x --shard 1/4 --resume a.toml", "kvcheck matrix a.toml --select 3fa9c1 --out repeat"),
        (
            "kvcheck matrix --junit=j.xml --baseline b.json --strict",
            "kvcheck matrix --strict --select 3fa9c1 --out repeat",
        ),
        ("kvcheck matrix 'a b.toml'", "kvcheck matrix 'a b.toml' --select 3fa9c1 --out repeat"),
        (
            "kvcheck record --out o -- python serve.py --select x",
            "kvcheck record --select 3fa9c1 --out repeat -- python serve.py --select x",
        ),
        (
            "kvcheck matrix --target store --target specimen:shared-pitch --arch=sm_89 --arch=sm_90",
            "kvcheck matrix --target specimen:shared-pitch --arch=sm_90 --select 3fa9c1 --out repeat",
        ),
        (
            "kvcheck matrix --target a.py::specimen:shared-pitch --target b --target",
            "kvcheck matrix --target a.py::specimen:shared-pitch --target --select 3fa9c1 --out repeat",
        ),
        (
            "kvcheck matrix --target a.py --target b.py",
            "kvcheck matrix --target a.py --target b.py --select 3fa9c1 --out repeat",
        ),
        (
            "kvcheck matrix --target 'specimen:*' --target store -j 2",
            "kvcheck matrix --target specimen:shared-pitch -j 2 --select 3fa9c1 --out repeat",
        ),
        (
            "kvcheck matrix --target='specimen:*'",
            "kvcheck matrix --target specimen:shared-pitch --select 3fa9c1 --out repeat",
        ),
        (
            "kvcheck matrix --target 'engine:*'",
            "kvcheck matrix --target 'engine:*' --select 3fa9c1 --out repeat",
        ),
        ("kvcheck matrix 'unbalanced", "kvcheck matrix 'unbalanced --select 3fa9c1 --out repeat"),
        ("", "kvcheck matrix --target specimen:shared-pitch --select 3fa9c1 --out repeat"),
    ],
)
def test_one_case_of_the_command_that_ran(command: str, wanted: str) -> None:
    """Options that choose or resume cases go, one target and one arch stay, and the id is put in."""
    assert repeat(report(PASS, command=command), "3fa9c1") == wanted


def test_what_a_shell_would_take_apart_is_quoted() -> None:
    """A target's name or an id cannot become another command."""
    target = msgspec.structs.replace(TARGET, name="x; rm -rf y")
    assert repeat(report(PASS, command="", target=target), "a b") == (
        "kvcheck matrix --target 'x; rm -rf y' --select 'a b' --out repeat"
    )
    assert repeat(report(PASS, command="kvcheck '"), "$(x)") == "kvcheck ' --select '$(x)' --out repeat"
