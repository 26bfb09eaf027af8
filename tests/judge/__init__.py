"""Tests of the judge, on emissions made by hand."""
