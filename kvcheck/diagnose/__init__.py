"""Findings → named faults, with evidence: predictions held against the emitted bytes. Numpy only.

`diagnose` is the entry. It asks every fault in `faults` for explanations of one case, and `arbitrate` chooses among
them.

1. What is known. `facts`: the right and the emitted bytes of launch 1; `received`: the strides that reached the
   kernel; `taken`: what the contract makes of rows that a kernel took. `side`, `part` and `final`: stored rows as
   bytes in memory; `image`: memory before the launch. `judged`: what the judge condemned; `sharers`: whose row
   stands in a shared slot.
2. What a fault is. `fault`: a prediction of bytes; `family`: faults of one name. `explanation`: the bytes that one
   gives; `match` and `groups` hold a predicted store against the emitted one.
3. Faults of reads, in `reads` and `sibling_pitch`: a `reading` is where elements were taken from, `dims` their order
   in a head, `lanes` a map within rows that takes some twice or not at all. `origin` finds where rows came from, and
   `elsewhere` names the maps that no reading gives.
4. Faults of scales and codes: `scales` lists `scale_fault` with `scale_rules`, `least_values`, `scale_uses`,
   `given_heads`, `scale_kept`, `short_scales`, `narrowed`, `populations`, `rounded_populations`, `means`, `row_parts`,
   `other_parts` and `behind`, as programs take rows in `turns`; `codes` lists `code_fault`, `directed`, `limits` and
   `other_codes`; `encoding` has the rounding in two steps, and `retyped` rows read as another type.
5. Faults of writes, in `writes`: `misplaced` rows, each at a `destination` that `strides`, `pages`, `exchanged` or
   `recovered` give and `search` finds, those in other `layers` among them; the `one_scale` of a row that stays;
   `lost`, `torn`, `unwanted`, `stray` and `mutated` bytes; and what `follows` something else than K and V, by what
   `moves` from launch to launch, or by `one_more` element. `graph_stale`: what a replay has of the capture.
6. What a pass rules out: `prospect`, whether the bytes of a faulty kernel may stand where they do; `reach`, whether
   it would have run into a fence.
"""

from kvcheck.diagnose.diagnose import diagnose, examine, foreseen, observable, shown

__all__ = ["diagnose", "examine", "foreseen", "observable", "shown"]
