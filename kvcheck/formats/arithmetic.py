"""The arithmetic of a contract, in one place to import from: scales, scaled values, codes, and what is legal."""

from __future__ import annotations

from kvcheck.formats.apply import apply_scale, contract_format, right_codes, right_codes_exact
from kvcheck.formats.interval import LegalScales, code_bounds, legal_scales, scale_bounds
from kvcheck.formats.scale import element_scales, right_scales
from kvcheck.formats.support import exact_arithmetic, is_supported

__all__ = [
    "LegalScales",
    "apply_scale",
    "code_bounds",
    "contract_format",
    "element_scales",
    "exact_arithmetic",
    "is_supported",
    "legal_scales",
    "right_codes",
    "right_codes_exact",
    "right_scales",
    "scale_bounds",
]
