"""Shadow memory under Triton's interpreter."""
