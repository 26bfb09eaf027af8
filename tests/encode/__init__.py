"""Tests of `kvcheck.lowering`."""
