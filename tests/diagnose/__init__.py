"""Tests of the diagnosis, on emissions made by hand."""
