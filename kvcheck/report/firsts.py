"""The first finding of a channel in words: where it lies, what stands there, and what should."""

from __future__ import annotations

from kvcheck.report.plain import number, one_line
from kvcheck.schema import FirstByte, FirstScale, FirstWrong

#: What the tensors of a placement are called, where that is not their name.
_NAMES = {
    "k": "K", "v": "V", "out_k": "K's output", "out_v": "V's output", "k_codes": "K codes", "v_codes": "V codes",
    "k_scales": "K scales", "v_scales": "V scales", "k_scale": "K's given scale", "v_scale": "V's given scale",
}  # fmt: skip


def first_code(first: FirstWrong) -> str:
    """The first wrong code."""
    digits = next(digits for digits in (2, 4, 8, 16) if max(first.got, first.want) < 16**digits)
    values = [f"{name} = {value:.9g}" for name, value in (("x", first.x), ("scale", first.scale)) if value is not None]
    place = _place(first.tensor.upper(), token=first.token, head=first.head, dim=first.dim, slot=first.slot)
    codes = f"got 0x{first.got:0{digits}X}, want 0x{first.want:0{digits}X}"
    return f"{place}: {codes}{' (' + ', '.join(values) + ')' if values else ''}{_launch(first.launch)}"


def first_scale(first: FirstScale) -> str:
    """The first wrong scale."""
    place = _place(first.tensor.upper(), token=first.token, head=first.head, block=first.block, slot=first.slot)
    got, want = (f"{value:.9g}" if value is not None else "not finite" for value in (first.got, first.want))
    return f"{place}: got {got}, want {want}, {first.ulps} ulp apart{_launch(first.launch)}"


def first_byte(first: FirstByte, want: str) -> str:
    """The first condemned byte; `want` says in words what its `want` is: `was due`, `stood there`."""
    name = _NAMES.get(first.tensor, one_line(first.tensor))
    if first.outside:
        there = (
            f"{number(-first.offset, 'byte')} before"
            if first.offset < 0
            else f"{first.offset} bytes after the begin of"
        )
        place = f"{there} {name}, in no tensor"
    else:
        place = _place(name, token=first.token, head=first.head, dim=first.dim, slot=first.slot)
        place += f" byte {first.byte}" if first.byte else ""
    due = f", 0x{first.want:02X} {want}" if first.want is not None else ""
    return f"{place}: got 0x{first.got:02X}{due}{_launch(first.launch)}"


def _place(name: str, **indices: int | None) -> str:
    return " ".join([name, *(f"{axis} {index}" for axis, index in indices.items() if index is not None)])


def _launch(number_: int) -> str:
    return f", in launch {number_}" if number_ > 1 else ""
