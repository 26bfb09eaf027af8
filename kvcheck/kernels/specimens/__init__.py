"""Known-bad kernels, each with one fault that it declares."""
