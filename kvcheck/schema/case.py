"""A case: one point of a matrix. `matrix/` makes them, `memory/` places them, all other stages read them."""

from __future__ import annotations

from typing import Literal

import msgspec


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One point of a matrix. Its defaults are the axes' defaults; `kvcheck.matrix.ids` names it."""

    k_view: str = "dense"
    v_view: str = "dense"
    k_values: str = "normal"
    v_values: str = "normal"
    k_scale: str = "2^-3"
    v_scale: str = "2^-3"
    tokens: int = 8
    extra_tokens: int = 0
    """Rows that K and V have beyond the slots, as a padded batch has: they are not to be stored."""
    heads: int = 3
    head_dim: int = 128
    head_dim_v: int | None = None
    dtype: Literal["bf16", "fp16", "fp32"] = "bf16"
    slots: str = "ascending"
    slot_dtype: Literal["int32", "int64"] = "int64"
    slot_view: Literal["dense", "every_second"] = "dense"
    k_cache: str = "dense"
    v_cache: str = "dense"
    layers: int = 1
    """Caches of so many layers lie one behind the other, and the target is given that of `layer`."""
    layout: str = "arena"
    poison: Literal["values", "nan"] = "values"
    order: Literal["kv", "vk"] = "kv"
    """Which of K and V lies first in memory."""
    form: str | None = None
    page: int | None = None
    requests: str = "one"
    cross: str = "none"
    launch: str = "eager"
    align: int = 16
    seed: int = 0

    @property
    def rows(self) -> int:
        """Rows of K and of V: one a token, and the extra ones."""
        return self.tokens + self.extra_tokens

    @property
    def layer(self) -> int:
        """Which layer's cache a target is given: one with another before it and, of three or more, one behind it."""
        return self.layers // 2

    @property
    def dim_v(self) -> int:
        """V's head dimension: K's unless the case says otherwise."""
        return self.head_dim if self.head_dim_v is None else self.head_dim_v
