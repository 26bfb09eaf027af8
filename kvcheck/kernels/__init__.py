"""kvcheck's own Triton kernels, and the specimens: known-bad ones."""
