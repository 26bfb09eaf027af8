"""Whether a case fits into this machine: the memory that kvcheck needs for it must not read as the kernel's doing."""

from __future__ import annotations

from kvcheck.schema import Case

#: Bytes that the process of a case has resident at most: for each byte of its allocations (what stands there before and
#: after a launch, and which bytes differ), for each element of K and V (drawn in doubles), and beside both. Measured.
PER_BYTE = 4
PER_ELEMENT = 45
BESIDE = 128 << 20


def no_room(case: Case, allocated: int, most: int) -> str | None:
    """Why a case is not run where a process may have `most` bytes, or None. `allocated` are its allocations' bytes."""
    elements = case.rows * case.heads * (case.head_dim + case.dim_v)
    needed = PER_BYTE * allocated + PER_ELEMENT * elements + BESIDE
    if needed <= most:
        return None
    return f"kvcheck needs about {_size(needed)} of memory for this case, and a case may have {_size(most)} here"


def _size(count: int) -> str:
    return f"{count / (1 << 30):,.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"
