"""The fields of what users declare, held against their types when they are said: one sentence a mistake."""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from kvcheck.errors import ContractError

#: The longest value that a sentence quotes whole, in characters.
_LONGEST = 80
#: What a type is called: one of it, and several.
_WORDS: dict[object, tuple[str, str]] = {
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("text", "texts"),
    bool: ("True or False", "True or False"),
    type(None): ("None", "None"),
}


def check_fields(struct: msgspec.Struct) -> None:
    """Check every field against its declared type, and make it of that very type: a list a tuple, an integer a float.

    Meant for `__post_init__`. Raises ContractError, one line: which field, what it is, and what was expected.
    """
    for name, hint in _hints(type(struct)).items():
        value = getattr(struct, name)
        try:
            fitting = msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            raise ContractError(f"{type(struct).__name__}.{name} {_misfit(value, hint)}") from error
        if fitting is not value:
            msgspec.structs.force_setattr(struct, name, fitting)


@cache
def _hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(kind)


def _misfit(value: object, hint: object) -> str:
    """`is 5; expected text`, or of a list or tuple that has items of its own to blame `has 5; expected text`."""
    item = next((get_args(part)[0] for part in _parts(hint) if get_origin(part) is tuple), None)
    if item is not None and isinstance(value, (list, tuple)):
        wrong = next(each for each in value if not _fits(each, item))
        return f"has {_shown(wrong)}; expected {_expected(item)}"
    return f"is {_shown(value)}; expected {_expected(hint)}"


def _fits(value: object, hint: object) -> bool:
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError:
        return False
    return True


def _shown(value: object) -> str:
    """A value on one line, cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _expected(hint: object) -> str:
    """A type in words, every choice that it leaves among them: `fp16, bf16 or None`."""
    *most, last = (word for part in _parts(hint) for word in _words(part))
    if not most:
        return last
    return f"{', '.join(most)}{',' * (' or ' in most[-1])} or {last}"


def _parts(hint: object) -> tuple[object, ...]:
    """The types that a union is of; a type that is no union itself."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _words(part: object) -> tuple[str, ...]:
    if get_origin(part) is Literal:
        return tuple(map(str, get_args(part)))
    if get_origin(part) is tuple:
        item = get_args(part)[0]
        return (f"a tuple of {_WORDS[item][1] if item in _WORDS else _expected(item)}",)
    if part in _WORDS:
        return (_WORDS[part][0],)
    return (f"kvcheck.{part.__name__}" if isinstance(part, type) else str(part),)
