"""Proof that the matrices see what they must: kernels with one fault each, and the cases that show them."""
