"""Damage to what the tool leaves behind."""

from __future__ import annotations

import re

from hypothesis import strategies as st

#: Where whole elements and lines begin: cut there, what is left is well-formed.
_EDGES = re.compile(rb"<record>|</ComputeSanitizerOutput>|^=", re.MULTILINE)

#: What is written into it.
_INTO = (b"0", b"<record/>", b"========= ERROR SUMMARY: 0 errors\n", b"ERROR SUMMARY: 0 errors\n", b"\xff", b"9" * 30)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes flipped, parts cut, doubled, turned round or put elsewhere."""
    found = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        edges = [match.start() for match in _EDGES.finditer(found)] if draw(st.booleans()) else []
        place = st.sampled_from(edges) if edges else st.integers(0, len(found))
        start, stop = sorted((draw(place), draw(place)))
        part = bytes(found[start:stop])
        kind = draw(st.sampled_from(("cut", "flip", "double", "turn", "move", "write")))
        if kind == "cut":
            del found[start:stop]
        elif kind == "flip" and start < len(found):
            found[start] ^= 1 << draw(st.integers(0, 7))
        elif kind == "double":
            found[start:start] = part
        elif kind == "turn":
            found[start:stop] = part[::-1]
        elif kind == "move":
            del found[start:stop]
            at = draw(st.integers(0, len(found)))
            found[at:at] = part
        else:
            found[start:start] = draw(st.sampled_from(_INTO))
    return bytes(found)
