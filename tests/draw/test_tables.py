"""Tables: block table, CSR, positions and last pages address the rows that slots do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.draw.slots import slot_count, slot_ids
from kvcheck.draw.tables import NAMES, spare_pages, tables

KINDS = st.sampled_from(["ascending", "permuted", "negative_mixed", "all_negative", "last", "page_edges"])


@given(KINDS, st.integers(0, 20), st.sampled_from([1, 2, 8, 16]))
def test_tables_lead_to_the_slots(kind: str, tokens: int, page: int) -> None:
    """By block table and by CSR; a negative slot has no request."""
    count = slot_count(tokens, page)
    ids = slot_ids(kind, tokens, count, page, 0)
    found = tables(ids, page)
    assert tuple(found) == NAMES
    assert all(table.dtype == np.int32 for table in found.values())
    for token, slot in enumerate(ids.tolist()):
        request, position = int(found["batch_indices"][token]), int(found["positions"][token])
        if slot < 0:
            assert request == -1
            continue
        listed = int(found["block_table"][request, position // page])
        first = int(found["kv_indptr"][request])
        assert listed == found["kv_indices"][first + position // page]
        assert listed * page + position % page == slot
        pages = int(found["kv_indptr"][request + 1]) - first
        assert position < (pages - 1) * page + int(found["last_page_len"][request])
        assert 1 <= found["last_page_len"][request] <= page
    assert found["kv_indptr"][-1] == len(found["kv_indices"])


@given(KINDS, st.integers(0, 20), st.sampled_from([1, 2, 8, 16]))
def test_spare_pages_hold_no_addressed_row(kind: str, tokens: int, page: int) -> None:
    """Or are all pages, where each holds one."""
    count = slot_count(tokens, page)
    ids = slot_ids(kind, tokens, count, page, 0)
    taken = set((ids[ids >= 0] // page).tolist())
    spare = spare_pages(ids, count // page, page).tolist()
    assert spare == sorted(set(range(count // page)) - taken or taken)
    assert spare
