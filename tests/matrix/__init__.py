"""Tests of `kvcheck.matrix`."""
