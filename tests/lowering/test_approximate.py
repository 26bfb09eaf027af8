"""Approximate divisions: legal where the contract declares them, faults where it does not, counted apart."""

from __future__ import annotations

import json

import numpy as np
import pytest

from .approximate import APPROXIMATE, EXACT, Counts, rows_of, stored
from .test_on_gpu import ran

#: Of codes under a declared error of 2 ulp, those that may be legal without being exact.
LEGAL_SHARE = 0.001


def test_emulated_error_is_legal_and_counted() -> None:
    """Quotients a little off, as an approximate division gives them: a few legal codes, no fault; exact: faults."""
    x, scales, codes = emulated(error=1)
    approximate, exact = Counts(), Counts()
    approximate.add(APPROXIMATE, x, scales, codes)
    exact.add(EXACT, x, scales, codes)
    assert (approximate.wrong, approximate.scales_wrong) == (0, 0)
    assert 0 < approximate.legal <= LEGAL_SHARE * approximate.codes
    assert approximate.scales_legal > 0
    assert exact.legal == 0
    assert exact.wrong > 0
    assert exact.scales_wrong == approximate.scales_legal


def test_more_error_than_declared_is_a_fault() -> None:
    """bf16 rows come no nearer to a tie than 2^11 ulp, if not to it: 2^14 ulp are beyond the band, and wrong."""
    counts = Counts()
    counts.add(APPROXIMATE, *emulated(error=1 << 14))
    assert counts.wrong > 0


def emulated(error: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, and scales and codes whose quotients are up to `error` ulp off."""
    from kvcheck.formats import exact  # noqa: PLC0415

    random = np.random.default_rng(7)
    x = rows_of(0, 2048).float().numpy()
    scales = (np.abs(x).max(axis=1) / np.float32(448)).astype(np.float32)
    scales = nudged(scales, random.integers(-1, 2, scales.shape))
    quotients = nudged((x / scales[:, None]).astype(np.float32), random.choice([-error, 0, 0, 0, 0, error], x.shape))
    return x, scales, exact.encode(quotients)


def nudged(values: np.ndarray, ulps: np.ndarray) -> np.ndarray:
    """fp32 values moved by ulps, zeros left alone."""
    moved = (values.view(np.int32) + ulps.astype(np.int32)).view(np.float32)
    return np.where(values == 0, values, moved).astype(np.float32)


def test_interpreted_divisions_are_exact() -> None:
    """The interpreter divides as IEEE does, so the kernel is right under both contracts there."""
    rows = rows_of(3, 1024)
    x, emitted = rows.float().numpy(), stored(rows, "cpu")
    for contract in (APPROXIMATE, EXACT):
        counts = Counts()
        counts.add(contract, x, *emitted)
        assert (counts.codes, counts.legal, counts.wrong, counts.scales_wrong) == (1024 * 128, 0, 0, 0)


@pytest.mark.gpu
def test_a_million_rows_by_approximate_division() -> None:
    """2^20 rows on a GPU: no fault and at most one legal code in a thousand as declared; declared exact, it fails."""
    found = json.loads(ran("approximate.py", str(1 << 20), "cuda"))
    approximate, exact = found["approximate"], found["exact"]
    assert approximate["codes"] == exact["codes"] == (1 << 20) * 128
    assert (approximate["wrong"], approximate["scales_wrong"]) == (0, 0)
    assert 0 < approximate["legal"] <= LEGAL_SHARE * approximate["codes"]
    assert exact["wrong"] > 0
    assert exact["scales_wrong"] > 0
