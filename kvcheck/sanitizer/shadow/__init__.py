"""Shadow memory: every load and store that Triton's interpreter makes, checked against kvcheck's own allocation map."""
