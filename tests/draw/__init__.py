"""Tests of `kvcheck.draw`."""
