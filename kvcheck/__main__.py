"""`python -m kvcheck`: the command, where it is not on the path."""

from __future__ import annotations

from kvcheck.cli.main import main

main()
