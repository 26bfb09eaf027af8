"""Runs each case in a process of its own, and wires the stages together."""
