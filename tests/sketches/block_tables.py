"""An engine addressed by block tables, with FlashInfer's append signature and its scale, a float that multiplies."""

from __future__ import annotations

import torch
from torch import Tensor

from kvcheck import Cache, Contract, Form, Given, store_target

from .arithmetic import dense, e4m3

CONTRACT = Contract(scale=Given("tensor", direction="multiplier", as_float=True))


def append_paged_kv_cache(  # noqa: PLR0913, PLR0917 - the engine's own signature
    append_key: Tensor,
    append_value: Tensor,
    batch_indices: Tensor,
    positions: Tensor,
    paged_kv_cache: tuple[Tensor, Tensor],
    kv_indices: Tensor,
    kv_indptr: Tensor,
    kv_last_page_len: Tensor,
    k_scale: float,
    v_scale: float,
    kv_layout: str = "NHD",
) -> None:
    """Stand-in. Pages are `[pages, page, H, D]`, or `[pages, H, page, D]` for HND; tables are int32."""
    tokens, requests = len(append_key), len(kv_indptr) - 1
    assert batch_indices.shape == positions.shape == (tokens,)
    assert kv_last_page_len.shape == (requests,)
    assert kv_indices.shape == (int(kv_indptr[-1]),)
    tables = (batch_indices, positions, kv_indices, kv_indptr, kv_last_page_len)
    assert all(table.dtype == torch.int32 for table in tables)
    assert all(table.stride() == (1,) for table in tables)
    kept = batch_indices >= 0
    request, position = batch_indices[kept].long(), positions[kept].long()
    for source, pages, scale in zip((append_key, append_value), paged_kv_cache, (k_scale, v_scale), strict=True):
        assert pages.dtype == torch.float8_e4m3fn
        assert pages.stride() == dense(pages)
        rows = pages.view(torch.uint8) if kv_layout == "NHD" else pages.view(torch.uint8).transpose(1, 2)
        size, heads, dim = rows.shape[1:]
        assert source.shape == (tokens, heads, dim)
        first = kv_indptr.long()
        length = (first[request + 1] - first[request] - 1) * size + kv_last_page_len.long()[request]
        assert bool((position < length).all()), "a token lies past its request's end"
        page = kv_indices.long()[first[request] + position // size]
        rows[page, position % size] = e4m3(source.float() * scale)[kept]


def _append(k: Tensor, v: Tensor, cache: Cache, layout: str) -> None:
    tables = cache.tables
    assert tables.block_table.shape == (len(k), 1)
    append_paged_kv_cache(
        k, v, tables.batch_indices, tables.positions, (cache.k.pages, cache.v.pages), tables.kv_indices,
        tables.kv_indptr, tables.last_page_len, cache.k.scale_value, cache.v.scale_value, layout,
    )  # fmt: skip


@store_target(
    "append-nhd",
    contract=CONTRACT,
    cache=Form("pages", page=16, codes="float8_e4m3fn", scales="none", addressed_by="block_table"),
)
def append_nhd(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:  # noqa: ARG001 - tables say where
    """Rows before heads in a page."""
    _append(k, v, cache, "NHD")


@store_target(
    "append-hnd",
    contract=CONTRACT,
    cache=Form("heads_pages", page=16, codes="float8_e4m3fn", scales="none", addressed_by="block_table"),
)
def append_hnd(k: Tensor, v: Tensor, slots: Tensor, cache: Cache) -> None:  # noqa: ARG001
    """Heads before rows in a page."""
    _append(k, v, cache, "HND")
