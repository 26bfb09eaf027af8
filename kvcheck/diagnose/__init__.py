"""Findings → named faults, with evidence: predictions held against the emitted bytes. Numpy only."""

from kvcheck.diagnose.diagnose import diagnose, observable, shown

__all__ = ["diagnose", "observable", "shown"]
