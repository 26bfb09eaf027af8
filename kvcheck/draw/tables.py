"""Block tables, batch indices, positions and CSR that address the same rows as slot ids do.

One request a token, of one page: its position is the slot's row in that page, so any slot pattern can be expressed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int32]

#: The tables, in the order in which they are laid out.
NAMES = ("block_table", "batch_indices", "positions", "kv_indptr", "kv_indices", "last_page_len")


def tables(ids: npt.NDArray[np.int64], page: int) -> dict[str, Table]:
    """Every table for these slot ids `[tokens]` and pages of `page` rows.

    A negative slot has batch index -1, position 0 and page 0.
    """
    kept = ids >= 0
    where = np.where(kept, ids, 0)
    pages = where // page
    positions = where % page
    return {
        "block_table": pages.astype(np.int32).reshape(-1, 1),
        "batch_indices": np.where(kept, np.arange(len(ids)), -1).astype(np.int32),
        "positions": positions.astype(np.int32),
        "kv_indptr": np.arange(len(ids) + 1, dtype=np.int32),
        "kv_indices": pages.astype(np.int32),
        "last_page_len": (positions + 1).astype(np.int32),
    }


def spare_pages(ids: npt.NDArray[np.int64], pages: int, page: int) -> npt.NDArray[np.int64]:
    """Pages that hold no addressed row, ascending; all pages where every one does."""
    free = np.ones(pages, np.bool_)
    free[ids[ids >= 0] // page] = False
    return np.flatnonzero(free if free.any() else ~free).astype(np.int64)
