"""Tests of `kvcheck.formats`."""
