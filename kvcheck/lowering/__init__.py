"""What touches Triton's and torch's internals, one small module each."""
