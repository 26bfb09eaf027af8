"""Tests of kvcheck.cli."""
