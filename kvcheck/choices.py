"""A value that is none of those a field may have, told with those that it may."""

from __future__ import annotations

import re
from typing import Literal, get_args, get_origin, get_type_hints

import msgspec

#: msgspec's words, and where: `$.scale.derive`, `$.dtypes[0]`.
_NONE_OF = re.compile(r"Invalid enum value (?P<value>.+) - at `\$\.(?P<path>[\w.]+)(?P<item>\[[^]]*\])?`\Z")


def sentence(value: msgspec.Struct, error: Exception) -> str:
    """What is wrong with `value`, in one line, where `msgspec.convert` raised `error` of it.

    Where a field is none of its choices, they are listed; any other error is told in its own words.
    """
    found = _NONE_OF.match(str(error))
    if found is None:
        return str(error)
    *parents, name = found["path"].split(".")
    for parent in parents:
        value = getattr(value, parent)
    *most, last = map(str, _literals(get_type_hints(type(value))[name]))
    expected = f"{', '.join(most)} or {last}" if most else last
    return f"{found['path']} {'has' if found['item'] else 'is'} {found['value']}; expected {expected}"


def _literals(hint: object) -> tuple[object, ...]:
    """Every value that a type names, those of its parts included, in order."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(literal for part in get_args(hint) for literal in _literals(part))
