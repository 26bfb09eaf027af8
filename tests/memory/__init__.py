"""Placement and real memory: pure arithmetic first, then torch's views of it."""
