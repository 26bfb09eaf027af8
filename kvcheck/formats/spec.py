"""Number formats of one byte a code, as data, and the policies of an encoder.

Sources: OCP 8-bit Floating Point Specification (OFP8) 1.0 for e4m3fn and e5m2; "8-bit numerical formats for deep
neural networks" (arXiv:2206.02915) for the fnuz forms; PTX ISA, `cvt`, for canonical NaN and integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from kvcheck.errors import FormatError

Rounding: TypeAlias = Literal["rne", "rtz", "half_away", "via_fp16_rne", "via_fp16_rtz", "via_bf16"]
"""How fp32 becomes a code. `via_…` first rounds to that type (bf16 to nearest even), then to nearest even."""
Overflow: TypeAlias = Literal["saturate", "nan"]
"""What lies beyond the largest finite value after rounding: that value, or NaN (infinity where a format has one)."""
NanSign: TypeAlias = Literal["canonical", "keep_sign"]
"""Which NaN code is written, for NaN inputs and for overflow to NaN alike."""
NegativeZero: TypeAlias = Literal["keep", "drop"]
"""Whether -0, and negatives that underflow, become the code of -0 or that of 0."""


@dataclass(frozen=True)
class Format:
    """A number format with 8 bits a code.

    Floats are a sign bit, an exponent and a mantissa, with subnormals; codes without the sign bit ascend with their
    magnitude. Integers are two's complement.
    """

    #: Name, as contracts say it
    name: str
    #: Bits of the exponent field; 0 for integers
    exponent_bits: int
    #: Bits of the mantissa field, the implicit one left out; 0 for integers
    mantissa_bits: int
    #: What is subtracted from the exponent field; 0 for integers
    bias: int
    #: Code of the largest finite value
    largest: int
    #: Code of the most negative value that an encoder emits
    least: int
    #: Code of the canonical NaN; None where the format has no NaN
    nan: int | None
    #: Code of the NaN that keeps a minus sign; None where there is but one NaN, or none
    negative_nan: int | None
    #: Code of plus infinity, minus infinity having the sign bit added; None where the format has none
    infinity: int | None
    #: Whether 0x80 is -0
    negative_zero: bool

    @property
    def integer(self) -> bool:
        """Whether codes are two's complement integers."""
        return self.exponent_bits == 0

    @property
    def subnormal_step(self) -> int:
        """Exponent of the distance between the values next to zero: 2^-9 for e4m3fn, 2^0 for int8."""
        return 0 if self.integer else 1 - self.bias - self.mantissa_bits


#: OCP OFP8 E4M3: no infinity, S.1111.111 is NaN, largest 448. 464 ties to 448.
E4M3FN = Format("e4m3fn", 4, 3, 7, 0x7E, 0xFE, 0x7F, 0xFF, None, negative_zero=True)
#: E4M3 with bias 8, largest 240, no -0: 0x80 is the only NaN.
E4M3FNUZ = Format("e4m3fnuz", 4, 3, 8, 0x7F, 0xFF, 0x80, None, None, negative_zero=False)
#: OCP OFP8 E5M2: infinities, largest 57344. The canonical NaN is that of CUDA's conversion, all bits of the mantissa.
E5M2 = Format("e5m2", 5, 2, 15, 0x7B, 0xFB, 0x7F, 0xFF, 0x7C, negative_zero=True)
#: E5M2 with bias 16, largest 57344, no infinity, no -0: 0x80 is the only NaN.
E5M2FNUZ = Format("e5m2fnuz", 5, 2, 16, 0x7F, 0xFF, 0x80, None, None, negative_zero=False)
#: Symmetric: -127 … 127. NaN becomes 0, as PTX `cvt` to an integer has it; overflow can only saturate.
INT8 = Format("int8", 0, 0, 0, 0x7F, 0x81, None, None, None, negative_zero=False)

FORMATS: dict[str, Format] = {each.name: each for each in (E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, INT8)}


def find_format(name: str | Format) -> Format:
    """The format of that name, or the format itself. Raises FormatError for a name that kvcheck does not know."""
    if isinstance(name, Format):
        return name
    if name not in FORMATS:
        raise FormatError(f"number format {name!r} is not known; expected one of {', '.join(FORMATS)}")
    return FORMATS[name]


def with_least(number_format: str | Format, code: int) -> Format:
    """The same format, saturating below at the value of `code`. Raises FormatError where that is not negative."""
    found = find_format(number_format)
    lowest = 0x80 if found.integer else 0x81
    if not lowest <= code <= (0xFF if found.integer else found.largest | 0x80):
        raise FormatError(f"least code {code:#x} of {found.name} is not that of a negative value")
    return replace(found, least=code)


@dataclass(frozen=True)
class Policy:
    """What an encoder does where formats leave a choice."""

    #: How fp32 becomes a code
    rounding: Rounding = "rne"
    #: What lies beyond the largest finite value
    overflow: Overflow = "saturate"
    #: Which NaN code is written
    nan: NanSign = "canonical"
    #: Whether -0 is written as such; formats without -0 always drop it
    negative_zero: NegativeZero = "keep"


@lru_cache(maxsize=256)
def policy_error(number_format: Format, policy: Policy) -> str | None:
    """Why an encoder cannot have this policy in this format: one line, or None where it can."""
    choices = (
        ("rounding", policy.rounding, get_args(Rounding)),
        ("overflow", policy.overflow, get_args(Overflow)),
        ("nan", policy.nan, get_args(NanSign)),
        ("negative_zero", policy.negative_zero, get_args(NegativeZero)),
    )
    for key, value, known in choices:
        if value not in known:
            return f"{key} {value!r} is not known; expected one of {', '.join(known)}"
    if policy.overflow == "nan" and number_format.nan is None:
        return f"overflow 'nan': {number_format.name} has no NaN to overflow to"
    if policy.overflow == "nan" and number_format.least != number_format.largest | 0x80:
        return f"overflow 'nan': {number_format.name} has a least value of its own to saturate at"
    if policy.nan == "keep_sign" and number_format.negative_nan is None:
        return f"nan 'keep_sign': {number_format.name} has no NaN with a sign"
    return None


@lru_cache(maxsize=256)
def check_policy(number_format: str | Format, policy: Policy) -> Format:
    """The format, once the policy fits it. Raises FormatError."""
    found = find_format(number_format)
    error = policy_error(found, policy)
    if error is not None:
        raise FormatError(error)
    return found
