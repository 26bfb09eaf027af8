"""Witnesses: what sanitizers say of a kernel's accesses, with the line and whose memory it was."""
