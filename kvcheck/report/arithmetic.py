"""The arithmetic that makes one code: the value over its scale, the two codes it lies between, which of them is due."""

from __future__ import annotations

import numpy as np

from kvcheck.contract import Contract
from kvcheck.formats.apply import apply_scale, contract_format, multiplies, right_codes, uses_reciprocal
from kvcheck.formats.decode import decode
from kvcheck.schema import FirstWrong


def arithmetic(contract: Contract, element: FirstWrong) -> list[str]:
    """How a wrong element's right code comes about, and what the code that stands there means: a line a step.

    `element.scale` is the scale the code was judged with. Where the value, or a scale that the contract has, is not
    finite or not known, there is no arithmetic to show, and a line says so. Raises FormatError for an unknown format.
    """
    number_format = contract_format(contract)
    values = decode(np.arange(256, dtype=np.uint8), number_format)
    got = f"got  0x{element.got:02X} = {values[element.got]:.9g}"
    if element.x is None or (contract.scale is not None and element.scale is None):
        return ["its value or its scale is not finite, or not in the report", got, f"due  0x{element.want:02X}"]
    x = np.full((1, 1, 1), element.x, dtype=np.float32)
    scale = None if element.scale is None else np.full((1, 1, 1), element.scale, dtype=np.float32)
    scaled = float(apply_scale(contract, x, scale)[0, 0, 0])
    due = int(right_codes(contract, x, scale)[0, 0, 0])
    lines = [f"q    {_operation(contract, element)} = {scaled:.9g}", f"     {_between(values, scaled)}"]
    lines.append(f"due  0x{due:02X} = {values[due]:.9g}, by {contract.rounding}")
    if due != element.want:  # a scale within its declared error, say: the two must not be passed off as one
        lines.append(f"     the judge's due is 0x{element.want:02X}, from another scale than this one")
    if contract.scale is not None and element.scale:
        meant = values[element.got] * element.scale if not multiplies(contract) else values[element.got] / element.scale
        got += f", which under this scale stands for {meant:.9g} instead of {element.x:.9g}"
    return [*lines, got]


def _operation(contract: Contract, element: FirstWrong) -> str:
    """The operation that the contract declares between the value and its scale."""
    if contract.scale is None:
        return f"x = {element.x:.9g}"
    if multiplies(contract):
        return f"{element.x:.9g} * {element.scale:.9g}"
    if uses_reciprocal(contract):
        return f"{element.x:.9g} * (1 / {element.scale:.9g})"
    return f"{element.x:.9g} / {element.scale:.9g}"


def _between(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]], scaled: float) -> str:
    """Where a scaled value lies among the finite values of the format."""
    finite = np.unique(values[np.isfinite(values)])
    if not np.isfinite(scaled):
        return "is not finite"
    if not finite[0] <= scaled <= finite[-1]:
        return f"lies beyond the format's {finite[0]:.9g} to {finite[-1]:.9g}"
    above = int(np.searchsorted(finite, np.float32(scaled)))
    if finite[above] == np.float32(scaled):
        return "is a value of the format itself"
    low, high = (float(finite[index]) for index in (above - 1, above))
    return f"lies between {low:.9g} and {high:.9g}, whose middle is {(low + high) / 2:.9g}"
