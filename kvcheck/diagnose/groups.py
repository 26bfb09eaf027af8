"""Groups of codes that share one scale, and what may stand in them: by the scales as they were kept, or by others."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kvcheck.contract import Computed
from kvcheck.diagnose.facts import Bytes, Facts, Floats, Mask, Stored
from kvcheck.formats import bits
from kvcheck.formats.apply import apply_scale, contract_format, contract_policy
from kvcheck.formats.arithmetic import code_bounds, element_scales, legal_scales, right_codes
from kvcheck.formats.scale import block_size
from kvcheck.schema import Tensor

#: One ulp of fp32, as a share of a number, at most.
ULP = 2.0**-23


def whole(facts: Facts, codes: Mask) -> Mask:
    """Whether all codes of a group are marked: `[n, heads, dim]` to the shape of kept scales, `[n, heads]` of given."""
    rule = facts.contract.scale
    granularity = rule.granularity if isinstance(rule, Computed) else "token_head"
    if granularity.startswith("block:"):
        size = block_size(granularity)
        count, heads, dim = codes.shape
        padded = np.ones((count, heads, -(-dim // size) * size), np.bool_)
        padded[:, :, :dim] = codes
        return np.asarray(padded.reshape(count, heads, -1, size).all(axis=3))
    if granularity == "token":
        return np.asarray(codes.all(axis=(1, 2)))[:, None]
    return np.asarray(codes.all(axis=2))


def spread(facts: Facts, groups: Mask, shape: tuple[int, ...]) -> Mask:
    """Marked groups, as `whole` gives them, on their codes: `[n, heads, dim]`."""
    if isinstance(facts.contract.scale, Computed):
        return np.asarray(element_scales(facts.contract, groups.astype(np.float32), shape) != 0)
    return np.broadcast_to(groups[:, :, None], shape)


def encoded(facts: Facts, scaled: Floats) -> Bytes:
    """Scaled values as codes, by the contract's own rules."""
    return bits.encode_by(scaled, contract_format(facts.contract), contract_policy(facts.contract))


def legal_by(facts: Facts, scaled: Floats, codes: Bytes, error: int = 0) -> Mask:
    """Which codes are those of scaled values `[n, heads, dim]`, within the contract's declared error or `error` ulps.

    The larger of the two counts.

    Codes of NaN are, where the contract leaves them open.
    """
    ulps = max(facts.contract.declared_ulps, error)
    found = codes == encoded(facts, scaled)
    if ulps:
        with np.errstate(all="ignore"):
            low, high = (
                encoded(facts, (scaled * np.float32(1 + way * ulps * ULP)).astype(np.float32)) for way in (-1, 1)
            )
        found = found | (codes == low) | (codes == high)
    if facts.contract.nan == "undefined":
        found = found | np.isnan(scaled)
    return np.asarray(found)


@lru_cache(maxsize=4)
def by_kept_scales(facts: Facts, tensor: Tensor) -> Mask:
    """Which codes of launch 1 are those of the right rows by the scales that were kept, right or not."""
    emitted, x = facts.emitted(tensor), facts.values(tensor)
    if emitted.scale is None:
        return facts.right(tensor).codes
    contract = facts.contract
    elements = np.asarray(element_scales(contract, emitted.scale, x.shape))
    found: Mask = emitted.codes == right_codes(contract, x, elements)
    if contract.declared_ulps:
        low, high = code_bounds(contract, x, elements)
        found |= (emitted.codes == low) | (emitted.codes == high)
    if contract.nan == "undefined":
        found |= np.isnan(apply_scale(contract, x, elements))
    return found


def kept_by(rule: Computed | None, values: Floats | None, emitted: Stored, due: Floats, ulps: int) -> Mask | None:
    """Which emitted scales are those of `values` by a rule, within its error; without one, `due` within `ulps` ulps.

    None where they are not shaped alike.
    """
    scale = emitted.scale
    if scale is None or scale.shape != due.shape:
        return None
    if rule is not None and values is not None:
        shape = scale.shape[:1] if rule.granularity == "token" else scale.shape
        return np.asarray(legal_scales(rule, scale.reshape(shape), values).reshape(scale.shape))
    return near(scale, due, ulps) | (np.isnan(scale) & np.isnan(due))


def near(values: Floats, due: Floats, ulps: int) -> Mask:
    """Which values are within so many ulps of what is `due`: of an infinity that one alone is, of NaN none."""
    with np.errstate(all="ignore"):
        close = np.isfinite(due) & (np.abs(values - due) <= np.abs(due) * np.float32(ulps * ULP))
    return np.asarray((values == due) | close)
