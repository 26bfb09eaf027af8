"""What a compiler made of a kernel, as frozen data: the schema's, by the name that this stage uses."""

from __future__ import annotations

from kvcheck.schema import Compiled, CompileFact

__all__ = ["CompileFact", "Compiled"]
