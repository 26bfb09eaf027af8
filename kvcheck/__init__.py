"""Did the kernel write the right bytes into the quantised KV cache? kvcheck runs it, compares every byte, says why.

The names here are what an adapter needs; the tool itself is the command `kvcheck`.
"""

from kvcheck.api import Cache, LoadTarget, Output, Side, StoreTarget, Tables, fused, load_target, store_target
from kvcheck.contract import Accepts, Computed, Contract, Form, Given, LoadContract
from kvcheck.errors import KvcheckError, Refused

__all__ = [
    "Accepts",
    "Cache",
    "Computed",
    "Contract",
    "Form",
    "Given",
    "KvcheckError",
    "LoadContract",
    "LoadTarget",
    "Output",
    "Refused",
    "Side",
    "StoreTarget",
    "Tables",
    "fused",
    "load_target",
    "store_target",
]

__version__ = "0.1.0"
