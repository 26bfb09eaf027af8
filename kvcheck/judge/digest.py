"""Hashes of what was stored, from the emission alone: equal inputs must give equal digests on every machine."""

from __future__ import annotations

from hashlib import sha256

from kvcheck.schema import Digest, Launch

#: Hex digits of a digest: 128 bits.
LENGTH = 32


def digest(launch: Launch) -> Digest:
    """SHA-256 over the addressed rows, K's then V's, of the codes and of the scales; of nothing where none are."""
    return Digest(codes=_hash(launch, "codes"), scales=_hash(launch, "scales"))


def _hash(launch: Launch, kind: str) -> str:
    rows = launch.rows
    return sha256(rows.get(f"k_{kind}", b"") + rows.get(f"v_{kind}", b"")).hexdigest()[:LENGTH]
