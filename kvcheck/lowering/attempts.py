"""Measurements that may fail without a machine being at fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kvcheck.lowering.messages import described

_Value = TypeVar("_Value")


@dataclass
class Attempts:
    """Each attempt gives its value, or None and one line in `errors` under its name."""

    errors: dict[str, str] = field(default_factory=dict)

    def attempt(self, name: str, measure: Callable[[], _Value]) -> _Value | None:
        """What `measure` returns, or None where it raises."""
        try:
            return measure()
        except Exception as error:  # noqa: BLE001 - anything may be missing; that is what is being found out
            self.errors[name] = described(error)
            return None
