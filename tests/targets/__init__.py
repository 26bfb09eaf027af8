"""Tests of kvcheck.targets."""
