"""What a case comes to whose launch is captured in a graph and replayed, by target: the same with a GPU and without."""

from __future__ import annotations

#: The outcome, and words of the first diagnosis or of the reason.
EXPECTED = {
    "keeps-slots": ("mismatch", "is stored in the slots that stood there when the graph"),
    "keeps-v": ("mismatch", "is stored from the rows that stood there when the graph"),
    "keeps-all": (
        "mismatch",
        "is stored in the slots and from the rows that stood there when the graph",
    ),
    "keeps-scale": ("mismatch", "is stored with the given scale that stood there when the graph"),
    "stores-outside": ("mismatch", "which a call before the capture did: the store is not in the graph"),
    "keeps-calibration": ("mismatch", "with the scales of rows that stood there when the graph"),
    "reads-on-host": ("crash", "captur"),
    "reads-on-host-said": ("unsupported", "takes launch eager; the case has graph"),
    "copies": ("pass", ""),
}
