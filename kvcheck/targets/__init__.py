"""Kernels under test: found by name or in a file, loaded, and what they are byte for byte."""
