"""Places the tensors of a case, and gives a target real memory to work on."""
