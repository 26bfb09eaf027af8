"""What a run is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Options:
    """A run's options; see `kvcheck matrix --help`."""

    device: str = "auto"
    """`auto`, `cpu`, `cuda` or a GPU such as `cuda:1`; for a whole run also a list of them."""
    archs: tuple[str, ...] = ()
    """The archs to run as; empty: this GPU's own, or sm_90 in the interpreter."""
    require_native: bool = False
    """Say inconclusive of an arch that this GPU is not."""
    jobs: int = 2
    """Children at a time."""
    timeout: float = 60.0
    """Seconds that a case may take."""
    load_timeout: float = 300.0
    """Seconds that importing a target, its engine and what runs it may take."""
    expect_declared: bool = False
    confirm: bool = False
    """Run a few failing cases once more, in fresh interpreters."""
    trace: bool = False
    """Run cases that die at a fence once more where memory follows: those bytes name the cause."""
    keep: Path | None = None
    """Where failing cases keep their emissions; None keeps none."""
    engine_paths: tuple[Path, ...] = ()
    """Folders to import engines from, before all others."""
    repeat: int = 1
    """Processes that run each case that passes, the first included."""
    resume: bool = False
    """Take over what a run that was cut has left in its folder."""
    witness: Literal["", "shadow", "record"] = ""
    """What watches the launches, beside the judge."""
    records: Path | None = None
    """Where each case leaves the launch that its child recorded, by its id."""
