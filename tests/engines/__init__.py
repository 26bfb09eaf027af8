"""Engines as users have them: their kernels, run by kvcheck's adapters in Triton's interpreter."""
