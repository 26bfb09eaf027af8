"""Where Triton keeps what it compiles: a folder of kvcheck's own for each way in which a kernel can be compiled."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

#: Triton's own variable. Whoever has set it has chosen.
CACHE = "TRITON_CACHE_DIR"


def kernel_cache(arch: str, own_arch: str) -> dict[str, str]:
    """The environment that has Triton keep kernels for `arch` apart, on a GPU of `own_arch`, empty without one.

    Apart by both archs, since code lowered for one is assembled for the other; by whether it is interpreted; and by the
    versions of torch and Triton. Empty where the user has named a folder.
    """
    if CACHE in os.environ:
        return {}
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    versions = "-".join(f"{name}-{metadata.version(name)}" for name in ("torch", "triton"))
    way = "interpreted" if not own_arch else "native" if arch == own_arch else f"lowered-on-{own_arch}"
    return {CACHE: str(home / "kvcheck" / f"{versions}-{arch}-{way}")}
