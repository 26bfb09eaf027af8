"""Adapters for engines' kernels: what each promises, read from its source, and the call. No engine's code is here."""
