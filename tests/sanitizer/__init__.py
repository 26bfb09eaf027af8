"""Sanitizers: what witnesses see, and what becomes of it."""
