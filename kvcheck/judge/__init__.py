"""Emission and contract → verdict, in a process the kernel never touched. Numpy only."""

from kvcheck.judge.judge import judge

__all__ = ["judge"]
