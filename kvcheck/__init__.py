"""Did the kernel write the right bytes into the quantised KV cache? kvcheck runs it, compares every byte, says why.

The names here are what an adapter needs; the tool itself is the command `kvcheck`.
"""

from kvcheck.api import (
    Cache,
    EncoderTarget,
    LoadTarget,
    Output,
    Side,
    StoreTarget,
    Tables,
    encoder_target,
    fused,
    load_target,
    store_target,
)
from kvcheck.contract import Accepts, Computed, Contract, EncoderContract, Form, Given, LoadContract
from kvcheck.errors import KvcheckError, Refused

__all__ = [
    "Accepts",
    "Cache",
    "Computed",
    "Contract",
    "EncoderContract",
    "EncoderTarget",
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
    "encoder_target",
    "fused",
    "load_target",
    "store_target",
]

__version__ = "0.1.0"
