"""Stored bytes that change from launch to launch: with what stood in the cache, with poison, with the sibling's values.

Launches 1 and 3 differ in the cache's prefill alone, 1 and 2 in poison too, and a fourth repeats the first exactly
where 1 and 3 differ. A crossed launch holds other values of one tensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt

from kvcheck.addresses import Offsets
from kvcheck.contract import Computed
from kvcheck.diagnose import received
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Mask, Stored
from kvcheck.diagnose.groups import encoded
from kvcheck.diagnose.part import KINDS, Kind, Part, part, parts
from kvcheck.diagnose.prospect import fails
from kvcheck.diagnose.reach import stopped_in
from kvcheck.diagnose.side import offsets_of
from kvcheck.draw.image import prefill_rows
from kvcheck.emission import LAUNCHES, PREFILLS, row_array, scale_values
from kvcheck.formats import bits
from kvcheck.formats.apply import apply_scale, contract_format
from kvcheck.formats.arithmetic import element_scales, legal_scales, right_codes, right_scales
from kvcheck.formats.decode import decode
from kvcheck.formats.magnitude import magnitudes
from kvcheck.schema import Launch, Placed, Prefill, Tensor


@dataclass(frozen=True)
class Moves:
    """Which bytes of a part change, and with what: `[stored tokens, units, width]`.

    Lost bytes are left out, and those of slots that tokens share, where they are right.
    """

    chance: Mask
    prefill: Mask
    poison: Mask
    sibling: Mask


@lru_cache(maxsize=8)
def moves(facts: Facts, tensor: Tensor, kind: Kind) -> Moves | None:
    """What the bytes of a part follow; None where the part is not stored."""
    held = part(facts, tensor, kind)
    if held is None:
        return None
    launches = [launch for launch in facts.emission.launches if launch.redrawn is None]
    bytes_of = [_bytes(facts, held, launch) for launch in launches]
    # In a slot that tokens share, rows may change as the contract allows it; wrong bytes may not.
    alone = facts.alone[:, None, None]
    comparable = (alone | held.wrong) & ~held.lost
    none = np.zeros(held.lost.shape, np.bool_)
    first = bytes_of[0]
    chance = comparable & (first != bytes_of[3]) if len(bytes_of) == 4 else none
    # What changes by chance anywhere may change so everywhere: then nothing else can be told.
    steady = comparable if len(bytes_of) < 4 or _repeats(facts) else none
    prefill = steady & (first != bytes_of[2])
    poison = steady & (first != bytes_of[1])
    if prefill.any() or _kept_scales(facts, tensor, 1) or _made_with_stale(facts, tensor).any():
        # Launch 2 has another prefill as well: what follows it there follows it here.
        prefill, poison = prefill | poison, none
    sibling = none
    for launch in facts.emission.launches:
        if launch.redrawn is not None and launch.redrawn != tensor:
            sibling = steady & (first != _bytes(facts, held, launch)) & ~prefill & ~poison
    return Moves(chance, prefill, poison, sibling)


def follows_cache(facts: Facts, made: Explanation) -> bool:
    """Whether some code that an explanation gives changes with what stood in the cache before the launch."""
    moved = moves(facts, "v" if made.tensor == "v" else "k", "codes")
    if moved is None or made.codes is None:
        return False
    compared = facts.compared
    return bool((moved.prefill[compared] & made.codes).any())


def follows_chance(facts: Facts, made: Explanation) -> bool:
    """Whether some code that an explanation gives is another one in a launch that is equal to the first."""
    moved = moves(facts, "v" if made.tensor == "v" else "k", "codes")
    if moved is None or made.codes is None:
        return False
    return bool((moved.chance[facts.compared] & made.codes).any())


class Nondeterministic:
    """`nondeterministic`: equal launches leave unequal bytes, in slots that one token has for its own."""

    slug = "nondeterministic"
    forms = ("",)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether rounding by chance would show: so many scaled values lie between two codes that some go wrong."""
        return {"": sum(_luck(facts, tensor) for tensor in TENSORS) < math.log(HARDLY)}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """The wrong codes of rows that change between launches 1 and 4."""
        return _explained(facts, self.slug, "chance", "change between launches that are equal in all they are given")


class UninitialisedRead:
    """`uninitialised-read`: what stood in the cache before the launch decides what is stored."""

    slug = "uninitialised-read"
    forms = ("",)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether a scale that never falls below the one in the cache would be another than the right one."""
        return {"": any(_stale_scale_shows(facts, tensor) for tensor in TENSORS)}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """The rows that change with the prefill alone, and how many scales are the very ones that stood there."""
        words = "follow what stood in the cache before the launch"
        return _explained(facts, self.slug, "prefill", words, kept=True)


class ForeignRead:
    """`foreign-read`: memory that is nobody's, or the sibling's, decides what is stored."""

    slug = "foreign-read"
    forms = ("an amax over one element more",)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether an amax over one element behind the last head would be another in one of the launches.

        Or whether a fence would stop it there.
        """
        found = (_wide_rows(before, tensor, None) for tensor in TENSORS for before in facts.launches(tensor))
        return {self.forms[0]: _meets_fence(facts) or any(bool(rows.any()) for rows in found)}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """Rows whose scale is that of one element more; else those that change with poison, or with the sibling."""
        wide = [_wide(facts, tensor) for tensor in TENSORS]
        made = [each for each in wide if each is not None]
        told = {each.tensor for each in made}
        followed = _explained(facts, self.slug, "poison", "follow what lies in the gaps and guards around K and V")
        crossed = _explained(facts, self.slug, "sibling", "follow the values of the sibling")
        return made + [each for each in (*followed, *crossed) if each.tensor not in told]


#: How likely a kernel that rounds by chance may be to get through the launches of a case, where it is said to fail.
HARDLY = 1e-6


@lru_cache(maxsize=2)
def _repeats(facts: Facts) -> bool:
    """Whether launch 4 left what launch 1 did, in slots that one token has for its own."""
    launches = [launch for launch in facts.emission.launches if launch.redrawn is None]
    alone = facts.alone[:, None, None]
    return not any(
        ((_bytes(facts, held, launches[0]) != _bytes(facts, held, launches[3])) & (alone | held.wrong)).any()
        for held in parts(facts)
    )


def stale_scales(facts: Facts, tensor: Tensor) -> Mask:
    """Scales that look never stored, beside codes that follow them: `[stored tokens, units]`.

    They were read from where they stand, and stored again or left.
    """
    held, codes = part(facts, tensor, "scales"), moves(facts, tensor, "codes")
    assert held is not None
    assert codes is not None
    rows = np.asarray(codes.prefill.any(axis=2)) | _made_with_stale(facts, tensor)
    blocks, rest = divmod(held.lost.shape[1], rows.shape[1])
    tokens = np.asarray(rows.any(axis=1))
    units = np.broadcast_to(tokens[:, None], held.lost.shape[:2]) if rest else np.repeat(rows, blocks, axis=1)
    return np.asarray(held.lost.any(axis=2) & units)


def _made_with_stale(facts: Facts, tensor: Tensor) -> Mask:
    """Wrong rows whose codes are those of a scale that stood there before, and still does: `[stored tokens, heads]`."""
    held, codes = part(facts, tensor, "scales"), part(facts, tensor, "codes")
    assert codes is not None
    none = np.zeros(codes.lost.shape[:2], np.bool_)
    if held is None or held.side.found.scale is None or not held.lost.any():
        return none
    x, scale = held.side.rows.x, held.side.found.scale
    with np.errstate(all="ignore"):
        elements = element_scales(facts.contract, scale, x.shape)
        made = right_codes(facts.contract, x, elements) == held.side.found.codes
    lost = np.asarray(held.lost.any(axis=2))
    kept = np.broadcast_to(np.asarray(lost.all(axis=1))[:, None], none.shape) if lost.shape != none.shape else lost
    return np.asarray(made.all(axis=2) & codes.wrong.any(axis=2) & kept)


def _bytes(facts: Facts, held: Part, launch: Launch) -> npt.NDArray[np.uint8]:
    return row_array(launch, held.placed, len(facts.slots)).reshape(held.due_at.shape)


def _explained(facts: Facts, slug: str, what: str, words: str, *, kept: bool = False) -> list[Explanation]:
    """One explanation for each tensor with bytes that change with `what`, a field of `Moves`."""
    found = []
    for tensor in TENSORS:
        masks: dict[str, Mask | None] = {"codes": None, "scales": None}
        count, rows = 0, np.zeros(len(facts.stored_tokens), np.bool_)
        compared = facts.compared
        right = 0
        for kind in KINDS:
            held, moved = part(facts, tensor, kind), moves(facts, tensor, kind)
            if held is None or moved is None:
                continue
            changing: Mask = getattr(moved, what) & compared[:, None, None]
            count += int(changing.sum())
            right += int((changing & ~held.wrong & ~held.lost).sum())
            rows = np.asarray(rows | changing.any(axis=(1, 2)))
            # A code of a unit that changes is as foreign as its neighbours, whether it happens to change or not.
            wrong = held.wrong & np.asarray(changing.any(axis=2))[:, :, None]
            if kept and kind == "codes":
                wrong = wrong | (held.wrong & _made_with_stale(facts, tensor)[:, :, None])
            if what == "chance":
                wrong = held.wrong & np.asarray(rows)[:, None, None]
            masks[kind] = wrong[compared] if kind == "codes" else _scales(held, wrong)[compared]
        if kept and facts.emission.placement.find(f"{tensor}_scales") is not None:
            right += 4 * int(stale_scales(facts, tensor).sum())
        if count:
            says = f"{count} bytes of {tensor.upper()}'s rows {words}, in {int(rows.sum())} of {len(rows)} tokens"
            stale = _kept_scales(facts, tensor, 0) if kept else 0
            if stale:
                says += f"; {stale} scales are the ones that stood there"
            tokens = facts.stored_tokens[rows].tolist()
            evidence: dict[str, int | float | str | list[int]] = {"bytes": count, "tokens": tokens}
            found.append(Explanation(slug, tensor, masks["codes"], masks["scales"], right, right, 6, says, evidence))
    return found


def _scales(held: Part, wrong: Mask) -> Mask:
    """A mask of scale bytes `[n, units, item]` as one of scales `[n, *groups]`."""
    assert held.side.right_scales is not None
    return np.asarray(wrong.any(axis=2)).reshape(held.side.right_scales.shape)


def _prefilled(facts: Facts, placed: Placed, at: Offsets, letter: Prefill) -> npt.NDArray[np.float32]:
    """The scales that the prefill of `placed` is at byte offsets `[..., item]`: `[...]`."""
    raw = prefill_rows(facts.emission.placement, facts.emission.case, placed.name, at, letter)
    return scale_values(np.ascontiguousarray(raw), placed)


def _kept_scales(facts: Facts, tensor: Tensor, launch: int) -> int:
    """How many scales that differ from launch 1 are, in another of the first three, what stood there before.

    Of launch 1 itself (0): how many of its wrong scales are.
    """
    held = part(facts, tensor, "scales")
    if held is None or held.due_at.shape[2] == 1:
        return 0
    here, there = (_bytes(facts, held, facts.emission.launches[each]) for each in (0, launch))
    changing = held.wrong.any(axis=2) if launch == 0 else (here != there).any(axis=2)
    values = scale_values(np.ascontiguousarray(there), held.placed)
    stale = values == _prefilled(facts, held.placed, held.due_at, PREFILLS[launch])
    return int((changing & ~held.lost.any(axis=2) & stale).sum())


def _stale_scale_shows(facts: Facts, tensor: Tensor) -> bool:
    placed, rule = facts.emission.placement.find(f"{tensor}_scales"), facts.contract.scale
    if placed is None or not isinstance(rule, Computed) or rule.dtype == "ue8m0" or not len(facts.tokens):
        return False
    own, due = facts.own(tensor), facts.own(tensor).stored.scale
    assert due is not None
    at, alone = offsets_of(placed, facts.slots[facts.compared]), facts.alone[facts.compared]
    for letter in PREFILLS:
        before = _prefilled(facts, placed, at, letter).reshape(due.shape)
        with np.errstate(invalid="ignore"):
            larger = before > due
        if larger[alone].any():
            return True
        if larger.any():
            # In a slot that tokens share it may be the scale of another of them; codes by it are not that one's.
            scale = np.where(larger, before, due)
            scaled = apply_scale(facts.contract, own.x, own.elements(scale))
            if fails(facts, tensor, Stored(encoded(facts, scaled), scale)):
                return True
    return False


def _luck(facts: Facts, tensor: Tensor) -> float:
    """The logarithm of how likely all launches are to round all values to nearest, each up as often as it lies high.

    Equal values are one, as they may share their chance, and values of subnormal codes are left out.
    """
    own, number_format = facts.own(tensor), contract_format(facts.contract)
    scaled = np.unique(own.scaled(own.stored)[0])
    size = np.abs(scaled[np.isfinite(scaled)]).astype(np.float64)
    low = magnitudes(bits.encode(size.astype(np.float32), number_format, rounding="rtz"), number_format)
    least = 0 if number_format.integer else 1 << number_format.mantissa_bits
    inside = (low >= least) & (low < number_format.largest)
    size, low = size[inside], low[inside]
    below, above = (decode((low + step).astype(np.uint8), number_format).astype(np.float64) for step in (0, 1))
    part = (size - below) / (above - below)
    return len(LAUNCHES) * float(np.log1p(-np.minimum(part, 1 - part)).sum())


def _meets_fence(facts: Facts) -> bool:
    """Whether a fence stops a kernel that reads one element behind the last head of K or V."""
    wide = [each for tensor in TENSORS if (each := _widened(facts, tensor)) is not None]
    return any(stopped_in(facts, each, heads=slice(-1, None)) for each in wide)


def _widened(facts: Facts, tensor: Tensor) -> Placed | None:
    """K or V with one element more in each head; None where a right kernel takes no amax over a head of it."""
    rule = facts.contract.scale
    if not isinstance(rule, Computed) or rule.granularity != "token_head" or not len(facts.tokens):
        return None
    own = received.source(facts.emission, tensor)
    if own is None or facts.emission.placement.find(f"{tensor}_scales") is None:
        return None
    return msgspec.structs.replace(own, dims=(*own.dims[:2], own.dims[2] + 1))


def _wide_rows(facts: Facts, tensor: Tensor, emitted: Stored | None) -> Mask:
    """Rows whose scale, over one element more than the last head has, is not a right one: `[n]`.

    With `emitted` only those whose emitted scale is such a one.
    """
    rule, wide = facts.contract.scale, _widened(facts, tensor)
    if wide is None:
        return np.zeros(len(facts.tokens), np.bool_)
    assert isinstance(rule, Computed)
    x = facts.read(wide)[:, -1:]
    right = right_scales(rule, facts.values(tensor)[:, -1:])
    if emitted is not None:
        assert emitted.scale is not None
        last = emitted.scale[:, -1:]
        return np.asarray((legal_scales(rule, last, x) & ~legal_scales(rule, last, facts.values(tensor)[:, -1:]))[:, 0])
    with np.errstate(invalid="ignore"):
        return np.asarray((right_scales(rule, x) != right)[:, 0])


def _wide(facts: Facts, tensor: Tensor) -> Explanation | None:
    """The rows of the last head whose amax has one element too many, where their number excludes chance."""
    held = part(facts, tensor, "scales")
    if held is None or held.side.right_scales is None:
        return None
    emitted = facts.emitted(tensor)
    rows = _wide_rows(facts, tensor, emitted)
    # A kernel that reads so does it in every row: one that should show it and does not is proof of another fault.
    if not rows.any() or (rows != _wide_rows(facts, tensor, None)).any():
        return None
    codes = part(facts, tensor, "codes")
    assert codes is not None
    compared = facts.compared
    hit = np.zeros(emitted.codes.shape[:2], np.bool_)
    hit[:, -1] = rows
    wrong = codes.wrong[compared] & hit[:, :, None]
    scales = ~held.side.right_scales[compared] & hit
    says = (
        f"{tensor.upper()}'s scale of the last head is that of one element more, the one behind its row, "
        f"in {int(rows.sum())} of {len(rows)} tokens"
    )
    evidence: dict[str, int | float | str | list[int]] = {"elements_beyond": 1, "tokens": facts.tokens[rows].tolist()}
    return Explanation(ForeignRead.slug, tensor, wrong, scales, 0, 0, 2, says, evidence)
