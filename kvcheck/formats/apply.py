"""What a contract says lies between a row and its codes: the scaled value, then the code. IEEE arithmetic."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kvcheck.contract import Contract, Given
from kvcheck.errors import FormatError
from kvcheck.formats import bits, exact
from kvcheck.formats.cast import round_to
from kvcheck.formats.decode import decode
from kvcheck.formats.spec import Format, Policy, find_format, with_least

Floats: TypeAlias = npt.NDArray[np.float32]
Codes: TypeAlias = npt.NDArray[np.uint8]


def multiplies(contract: Contract) -> bool:
    """Whether the scale itself is a factor: it is given, as a multiplier."""
    return isinstance(contract.scale, Given) and contract.scale.direction == "multiplier"


def uses_reciprocal(contract: Contract) -> bool:
    """Whether values are multiplied by the rounded reciprocal of the scale."""
    return contract.apply in ("multiply_reciprocal", "multiply_approx_reciprocal") and not multiplies(contract)


def apply_scale(contract: Contract, x: Floats, scale: Floats | None) -> Floats:
    """The scaled values of `x` `[T, H, D]`; `scale` broadcasts to it, and is not used where the contract has none.

    `divide` is the fp32 quotient, `multiply_reciprocal` the product with the reciprocal rounded to fp32, and
    `power_of_two` divides; approximate forms are computed as their exact counterparts. In fp16 and bf16 compute,
    inputs, reciprocal and result are each rounded to that type, the operation itself being fp32's, as on GPUs, which
    have no narrower division. Zero, infinite and NaN scales behave as IEEE 754 says, in silence. Raises ValueError
    where the contract has a scale and `scale` is None.
    """
    compute = contract.compute
    with np.errstate(all="ignore"):
        x = round_to(x, compute)
        if contract.scale is None:
            return x
        if scale is None:
            raise ValueError("the contract has a scale: pass it")
        scale = round_to(scale, compute)
        if multiplies(contract):
            scaled = x * scale
        elif uses_reciprocal(contract):
            scaled = x * round_to(np.asarray(np.float32(1) / scale, dtype=np.float32), compute)
        else:
            scaled = x / scale
        return round_to(np.asarray(scaled, dtype=np.float32), compute)


def contract_format(contract: Contract) -> Format:
    """The contract's number format, saturating below at its `minimum`.

    Raises FormatError for an unknown format, and for a minimum that is not one of its negative values.
    """
    number_format = find_format(contract.format)
    if contract.minimum is None:
        return number_format
    values = decode(np.arange(256, dtype=np.uint8), number_format)
    fitting = np.flatnonzero((values == np.float32(contract.minimum)) & np.isfinite(values) & (values < 0))
    if not fitting.size:
        raise FormatError(f"minimum {contract.minimum!r} is not a negative value of {number_format.name}")
    return with_least(number_format, int(fitting[0]))


def contract_policy(contract: Contract) -> Policy:
    """The encoder's policy under this contract. NaN that is `undefined` is written as the canonical one."""
    nan = "canonical" if contract.nan == "undefined" else contract.nan
    return Policy(contract.rounding, contract.overflow, nan, contract.negative_zero)


def right_codes(contract: Contract, x: Floats, scale: Floats | None) -> Codes:
    """The right code of every element of `x` `[T, H, D]`, given `scale`, by the bit oracle. Raises FormatError."""
    return bits.encode_by(apply_scale(contract, x, scale), contract_format(contract), contract_policy(contract))


def right_codes_exact(contract: Contract, x: Floats, scale: Floats | None) -> Codes:
    """`right_codes` by the exact oracle, which shares no code with the bit oracle. Raises FormatError."""
    return exact.encode_by(apply_scale(contract, x, scale), contract_format(contract), contract_policy(contract))
