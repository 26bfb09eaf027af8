"""`input-mutated`: K, V, slots or given scales are not what they were before the launch."""

from __future__ import annotations

import numpy as np

from kvcheck.addresses import byte_offsets, element_offsets
from kvcheck.diagnose.explanation import Explanation
from kvcheck.diagnose.facts import TENSORS, Facts, Floats
from kvcheck.diagnose.final import final
from kvcheck.draw import dtypes
from kvcheck.emission import STORED
from kvcheck.formats.apply import contract_format
from kvcheck.formats.decode import decode
from kvcheck.schema import ITEMSIZE, Placed

#: Rows that a sentence names.
NAMED = 4


class InputMutated:
    """Says which tensor changed, in which rows, and whether by a clamp, a factor or zeros."""

    slug = "input-mutated"

    forms = ("",)

    def shown(self, facts: Facts) -> dict[str, bool]:
        """Whether a kernel that clamps K and V to the format's range where they lie would change them."""
        largest = float(np.nanmax(decode(np.arange(256, dtype=np.uint8), contract_format(facts.contract))))
        with np.errstate(invalid="ignore"):
            return {"": any(bool((np.abs(facts.values(tensor)) > largest).any()) for tensor in TENSORS)}

    def explanations(self, facts: Facts) -> list[Explanation]:
        """One for each tensor that launch 1 changed."""
        if not facts.emission.launches[0].changes:
            return []
        tensors = [tensor for tensor in facts.emission.placement.tensors if tensor.name not in STORED]
        made = [_says(facts, tensor) for tensor in tensors]
        return [each for each in made if each is not None]


def _says(facts: Facts, tensor: Placed) -> Explanation | None:
    places = byte_offsets(element_offsets(tensor), ITEMSIZE[tensor.dtype])
    before, after = (array[tensor.allocation][places] for array in (final(facts).before, final(facts).after))
    changed = (before != after).any(axis=-1)
    if not changed.any():
        return None
    count = int((before != after).sum())
    rows = np.flatnonzero(changed.reshape(len(changed), -1).any(axis=1)) if changed.ndim else np.zeros(1, np.int64)
    named = ", ".join(str(row) for row in rows[:NAMED].tolist())
    more = f" and {len(rows) - NAMED} others" if len(rows) > NAMED else ""
    how = ""
    if tensor.dtype in ("bf16", "fp16", "fp32"):
        old, new = (_floats(raw, tensor)[changed] for raw in (before, after))
        how = _how(old, new)
    return Explanation(
        fault=InputMutated.slug,
        tensor=tensor.name if tensor.name in TENSORS else "",
        codes=None,
        scales=None,
        others=count,
        of_others=count,
        cost=1,
        says=f"{int(changed.sum())} elements of {tensor.name} are changed where they lie{how}, in rows {named}{more}",
        evidence={"tensor": tensor.name, "elements": int(changed.sum()), "bytes": count, "rows": rows.tolist()},
    )


def _floats(raw: np.typing.NDArray[np.uint8], tensor: Placed) -> Floats:
    bits = np.ascontiguousarray(raw).view(np.uint32 if tensor.dtype == "fp32" else np.uint16)[..., 0]
    assert tensor.dtype in ("bf16", "fp16", "fp32")
    return dtypes.to_float32(bits, tensor.dtype)


def _how(old: Floats, new: Floats) -> str:
    """What made the new values of the old ones, in words; empty where none of these did."""
    with np.errstate(all="ignore"):
        limit = np.abs(new).max()
        if (new == np.clip(old, -limit, limit)).all() and limit > 0:
            return f": clamped to ±{limit:g}"
        if not new.any():
            return ": set to zero"
        factor = new / old
    if np.isfinite(factor).all() and factor.min() == factor.max():
        return f": multiplied by {factor.flat[0]:g}"
    return ""
