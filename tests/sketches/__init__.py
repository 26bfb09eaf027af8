"""Sketches: seven adapters as users would write them, over stand-ins with their engines' own signatures.

A stand-in is host code of kvcheck's own. It asserts the shape, strides and dtype of all that it is handed, and
stores what its contract asks for.
"""
