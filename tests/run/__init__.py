"""Tests of kvcheck.run, and of whole runs of the command."""
