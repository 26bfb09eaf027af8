"""Tests of kvcheck.report."""
