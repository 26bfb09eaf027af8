"""Random bits that are a pure function of a key and a position: any part of a stream can be drawn on its own.

The generator is Philox-4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"). Its raw output is
exact integer arithmetic and part of numpy's stability promise, so the bits agree on every machine and version.
"""

from __future__ import annotations

import hashlib
import json
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Key: TypeAlias = tuple[str | int, ...]
Words: TypeAlias = npt.NDArray[np.uint64]

#: Words that one value of Philox's counter gives.
_BLOCK = 4

_PHILOX = np.random.Philox(key=0)
#: A state of it, written over for each stream.
_STATE = _PHILOX.state
_encoded = json.JSONEncoder(separators=(",", ":")).encode


def words(key: Key, start: int, count: int) -> Words:
    """Return words `start` to `start + count` of the stream of `key`, as uint64 `[count]`."""
    skip = start % _BLOCK
    drawn: Words = _generator(key, start // _BLOCK).random_raw(skip + count)[skip:]
    return drawn


def raw_bytes(key: Key, start: int, stop: int) -> npt.NDArray[np.uint8]:
    """Return bytes `start` to `stop` of the stream of `key`, uint8 `[stop - start]`, of little-endian words."""
    first = start // 8
    drawn = words(key, first, -(-stop // 8) - first)
    return drawn.astype("<u8").view(np.uint8)[start - 8 * first : stop - 8 * first]


def _generator(key: Key, block: int) -> np.random.Philox:
    """Return the generator of the stream of `key`, about to give its `block`-th block: this process's one, set anew.

    To make one takes three times as long, and a small case draws from a hundred streams.
    """
    inner = _STATE["state"]
    inner["key"][:] = _halves(_philox_key(key))
    inner["counter"][:2] = _halves(block)
    inner["counter"][2:] = 0
    _STATE["buffer_pos"] = _BLOCK  # nothing is left of a block drawn before
    _PHILOX.state = _STATE
    return _PHILOX


def _philox_key(key: Key) -> int:
    """Return 128 bits of a hash of the key. JSON keeps 1 and "1", ("a", "b") and ("ab",) apart."""
    return int.from_bytes(hashlib.blake2b(_encoded(key).encode(), digest_size=16).digest(), "little")


def _halves(number: int) -> tuple[int, int]:
    """Return the lower and the upper 64 bits."""
    return number & ((1 << 64) - 1), number >> 64
