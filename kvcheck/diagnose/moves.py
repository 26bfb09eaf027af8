"""Which stored bytes change from launch to launch, and with what.

Launches 1 and 3 differ in the cache's prefill alone, 1 and 2 in poison too, and a fourth repeats the first exactly
where 1 and 3 differ. A crossed launch holds other values of one tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from kvcheck.addresses import Offsets
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import Facts, Mask
from kvcheck.diagnose.part import Kind, Part, part, parts
from kvcheck.draw.image import prefill_rows
from kvcheck.emission import PREFILLS, row_array, scale_values
from kvcheck.formats.arithmetic import element_scales, right_codes
from kvcheck.schema import Launch, Placed, Prefill, Tensor

#: Codes that change for each that an explanation gives, from which on it is chance that gave them.
LUCKY = 0.25


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
    if prefill.any() or kept_scales(facts, tensor, 1) or made_with_stale(facts, tensor).any():
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
    """Whether chance decides what an explanation gives.

    Some code that it gives is another one in a launch that is equal to the first; or a quarter as many codes of the
    same rows are, which it takes for right: the first launch was lucky there.
    """
    moved = moves(facts, "v" if made.tensor == "v" else "k", "codes")
    if moved is None or made.codes is None:
        return False
    changing = moved.chance[facts.compared]
    rows = np.asarray(made.codes.any(axis=2))[:, :, None]
    lucky = int((changing & rows).sum())
    return bool((changing & made.codes).any()) or (bool(lucky) and lucky >= LUCKY * int(made.codes.sum()))


def stale_scales(facts: Facts, tensor: Tensor) -> Mask:
    """Scales that look never stored, beside codes that follow them: `[stored tokens, units]`.

    They were read from where they stand, and stored again or left.
    """
    held, codes = part(facts, tensor, "scales"), moves(facts, tensor, "codes")
    assert held is not None
    assert codes is not None
    rows = np.asarray(codes.prefill.any(axis=2)) | made_with_stale(facts, tensor)
    blocks, rest = divmod(held.lost.shape[1], rows.shape[1])
    tokens = np.asarray(rows.any(axis=1))
    units = np.broadcast_to(tokens[:, None], held.lost.shape[:2]) if rest else np.repeat(rows, blocks, axis=1)
    return np.asarray(held.lost.any(axis=2) & units)


def made_with_stale(facts: Facts, tensor: Tensor) -> Mask:
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


def kept_scales(facts: Facts, tensor: Tensor, launch: int) -> int:
    """How many scales that differ from launch 1 are, in another of the first three, what stood there before.

    Of launch 1 itself (0): how many of its wrong scales are.
    """
    held = part(facts, tensor, "scales")
    if held is None or held.due_at.shape[2] == 1:
        return 0
    here, there = (_bytes(facts, held, facts.emission.launches[each]) for each in (0, launch))
    changing = held.wrong.any(axis=2) if launch == 0 else (here != there).any(axis=2)
    values = scale_values(np.ascontiguousarray(there), held.placed)
    stale = values == prefilled_scales(facts, held.placed, held.due_at, PREFILLS[launch])
    return int((changing & ~held.lost.any(axis=2) & stale).sum())


@lru_cache(maxsize=2)
def _repeats(facts: Facts) -> bool:
    """Whether launch 4 left what launch 1 did, in slots that one token has for its own."""
    launches = [launch for launch in facts.emission.launches if launch.redrawn is None]
    alone = facts.alone[:, None, None]
    return not any(
        ((_bytes(facts, held, launches[0]) != _bytes(facts, held, launches[3])) & (alone | held.wrong)).any()
        for held in parts(facts)
    )


def prefilled_scales(facts: Facts, placed: Placed, at: Offsets, letter: Prefill) -> npt.NDArray[np.float32]:
    """The scales that the prefill of `placed` is at byte offsets `[..., item]`: `[...]`."""
    raw = prefill_rows(facts.emission.placement, facts.emission.case, placed.name, at, letter)
    return scale_values(np.ascontiguousarray(raw), placed)


def _bytes(facts: Facts, held: Part, launch: Launch) -> npt.NDArray[np.uint8]:
    return row_array(launch, held.placed, len(facts.slots)).reshape(held.due_at.shape)
