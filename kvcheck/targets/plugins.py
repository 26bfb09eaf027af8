"""Plug-ins: targets of installed packages, announced under the entry point group `kvcheck.targets`.

An entry point's name is the target's; its value is a target, or a module that declares the target of that name:

    [project.entry-points."kvcheck.targets"]
    my-kernel = "my_engine.kvcheck_adapter:my_kernel"
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from types import ModuleType

from kvcheck.api import LoadTarget, StoreTarget

GROUP = "kvcheck.targets"


@dataclass(frozen=True)
class Plugin:
    """An entry point: the target it names, and the distribution that brings it."""

    name: str
    value: str
    distribution: str
    version: str
    point: metadata.EntryPoint

    @property
    def where(self) -> str:
        """Where the target was found, for people."""
        return f"entry point of {self.distribution} {self.version}: {self.value}"

    def load(self) -> StoreTarget | LoadTarget | ModuleType:
        """Import what the entry point names. Raises whatever that raises, and TypeError for another kind of thing."""
        found: object = self.point.load()
        if not isinstance(found, StoreTarget | LoadTarget | ModuleType):
            raise TypeError(f"{self.value} is {type(found).__name__}; expected a target or a module that declares it")
        return found


def plugins() -> tuple[Plugin, ...]:
    """Every plug-in that is installed, by name, then by distribution. Imports none."""
    found = []
    for point in metadata.entry_points(group=GROUP):
        name, version = (point.dist.name, point.dist.version) if point.dist is not None else ("an unknown package", "")
        found.append(Plugin(point.name, point.value, name, version, point))
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution, plugin.version)))
