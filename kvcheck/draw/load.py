"""What a load target finds in the cache: codes and scales of the rows that its slots address.

Every 256 codes of a tensor are all 256 bytes in an order of their own, so that each code, NaNs and -0 included, is
decoded in any case of two heads or more. Rows that no slot addresses hold prefill, like every byte that must not
matter.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvcheck.draw.counter import words
from kvcheck.schema import Tensor

Codes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Slots = npt.NDArray[np.int64]

#: Drawn scales lie from 2^-10 to below 2^4: no product with a code of e4m3 or int8 leaves fp16.
LEAST_EXPONENT, EXPONENTS = -10, 14


def row_codes(role: Tensor, ids: Slots, heads: int, dim: int, seed: int) -> Codes:
    """The codes of each token's row, uint8 `[tokens, heads, dim]`; tokens that share a slot share its row."""
    count = len(ids) * heads * dim
    drawn = words(("load-codes", role, seed), 0, -(-count // 256) * 256).reshape(-1, 256)
    codes = np.argsort(drawn, axis=1, kind="stable").astype(np.uint8)
    return codes.reshape(-1)[:count].reshape(len(ids), heads, dim)[_first(ids)]


def row_scales(role: Tensor, ids: Slots, heads: int, seed: int) -> Floats:
    """The fp32 scale of each token and head, `[tokens, heads]`: uniform in the exponent and in every mantissa bit."""
    drawn = words(("load-scales", role, seed), 0, len(ids) * heads)
    exponent = (drawn >> np.uint64(40)) % np.uint64(EXPONENTS) + np.uint64(127 + LEAST_EXPONENT)
    pattern = (exponent << np.uint64(23)) | (drawn & np.uint64(0x7FFFFF))
    scales: Floats = pattern.astype(np.uint32).view(np.float32).reshape(len(ids), heads)
    return scales[_first(ids)]


def _first(ids: Slots) -> Slots:
    """For each token the first that has its slot, `[tokens]`."""
    _, first, which = np.unique(ids, return_index=True, return_inverse=True)
    found: Slots = first[which.reshape(-1)].astype(np.int64)
    return found
