"""Packages of many modules have a map, in their docstring: every module is on it, and nothing else."""  # noqa: INP001 - each folder of tests is a package of its own

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

#: A module's name, as a map writes it.
_NAME = re.compile(r"`([a-z_]+)`")


@pytest.mark.parametrize("package", ["diagnose", "memory", "run", "schema"])
def test_every_module_is_on_the_map(package: str) -> None:
    """Who comes to a folder of forty files finds each where it acts; a module that is gone is not looked for."""
    found = importlib.import_module(f"kvcheck.{package}")
    modules = {module.name for module in pkgutil.iter_modules(found.__path__)}
    named = set(_NAME.findall(found.__doc__ or ""))
    assert modules - named == set()
    assert named - modules - {"slot", "token"} == set()
