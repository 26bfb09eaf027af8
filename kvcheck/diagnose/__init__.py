"""Findings → named faults, with evidence: predictions held against the emitted bytes. Numpy only."""

from kvcheck.diagnose.diagnose import diagnose, examine, foreseen, observable, shown

__all__ = ["diagnose", "examine", "foreseen", "observable", "shown"]
