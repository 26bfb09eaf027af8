"""kvcheck's own kernels, in Triton's interpreter; tests marked gpu run them on a GPU."""
