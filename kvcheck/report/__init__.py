"""Reports: exit codes, `report.json`, `report.md` and the terminal, all from the same `schema.Report`.

`build` makes a report, `write` and `read` keep it, `markdown` and `terminal` show it, `exit_codes` sums it up.
"""
