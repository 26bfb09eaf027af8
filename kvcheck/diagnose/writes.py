"""The faults of writes, of memory that is nobody's to read, and of runs, in the order in which equals are named.

`order-dependent` is not among them: an order of cases is `run`'s to know, which names it itself. It is never said to be
observable.
"""

from __future__ import annotations

from kvcheck.diagnose.dims import ElementOrder
from kvcheck.diagnose.exchanged import EXCHANGED
from kvcheck.diagnose.fault import Fault
from kvcheck.diagnose.follows import ForeignRead, Nondeterministic, UninitialisedRead
from kvcheck.diagnose.graph_stale import GraphStale
from kvcheck.diagnose.layers import LayerRemap
from kvcheck.diagnose.lost import LostEdge, LostTail, TokenLost
from kvcheck.diagnose.misplaced import MISALIGNED_WRITE, MISPLACED, WRAPPED_WRITE
from kvcheck.diagnose.mutated import InputMutated
from kvcheck.diagnose.one_scale import OneScale
from kvcheck.diagnose.stray import StrayWrite
from kvcheck.diagnose.torn import TornSlot
from kvcheck.diagnose.unwanted import NegativeSlot

WRITES: tuple[Fault, ...] = (
    *MISPLACED,
    WRAPPED_WRITE,
    MISALIGNED_WRITE,
    *EXCHANGED,
    OneScale(),
    ElementOrder(),
    NegativeSlot(),
    TornSlot(),
    InputMutated(),
    Nondeterministic(),
    UninitialisedRead(),
    ForeignRead(),
    LostTail(),
    LostEdge(),
    TokenLost(),
    StrayWrite(),
    LayerRemap(),
    GraphStale(),
)
