"""The command line that repeats one case of a report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from kvcheck.report.plain import one_line
from kvcheck.schema import Report

#: Options that limit or resume a run, with the number of values they take: one case is chosen by its id alone.
_DROPPED = {"--select": 1, "--shard": 1, "--resume": 0, "--junit": 1, "--baseline": 1, "--out": 1}

#: Where a repeated case's report goes: not over the report that it is read in.
OUT = "repeat"


def repeat(report: Report, identifier: str) -> str:
    """The command that ran, for one case: `<command> --select <id> --out repeat`, with one target and one arch.

    What follows a lone `--` (the program of `kvcheck record`) stays behind it.
    """
    try:
        words = shlex.split(one_line(report.command))
    except ValueError:  # unbalanced quotes: nothing to take apart
        return f"{one_line(report.command)} --select {shlex.quote(identifier)} --out {OUT}"
    if not words:
        words = ["kvcheck", "matrix", "--target", one_line(report.target.name)]
    split = words.index("--") if "--" in words else len(words)
    options = _only(_only(without(words[:split], _DROPPED), "--target", report.target.name), "--arch", report.arch)
    return shlex.join([*options, "--select", identifier, "--out", OUT, *words[split:]])


def without(words: Sequence[str], dropped: Mapping[str, int]) -> list[str]:
    """`words` less the options in `dropped`, which says how many values each takes, and their values."""
    kept: list[str] = []
    skip = 0
    for word in words:
        if skip:
            skip -= 1
        elif word in dropped:
            skip = dropped[word]
        elif word.partition("=")[0] not in dropped:
            kept.append(word)
    return kept


def _only(words: list[str], option: str, wanted: str) -> list[str]:
    """`words` with one of several values of `option`: the wanted one. Unchanged where it cannot be told which."""
    places: list[tuple[int, int, str]] = []
    for index, word in enumerate(words):
        if word == option and index + 1 < len(words):
            places.append((index, index + 2, words[index + 1]))
        elif word.startswith(option + "="):
            places.append((index, index + 1, word.partition("=")[2]))
    chosen = [place for place in places if place[2].rpartition("::")[2] == wanted or place[2] == wanted]
    patterns = [place for place in places if "*" in place[2] and fnmatchcase(wanted, place[2])]
    if not chosen and len(patterns) == 1:  # 'specimen:*': name the one, here and nowhere else
        begin, end, _ = patterns[0]
        return _only([*words[:begin], option, wanted, *words[end:]], option, wanted)
    if len(places) == 1 and places[0][2].endswith(".py"):  # all targets of a file: name the one
        begin, end, path = places[0]
        return [*words[:begin], option, f"{path}::{wanted}", *words[end:]]
    if len(places) < 2 or len(chosen) != 1:
        return words
    dropped = {index for begin, end, _ in places if (begin, end) != chosen[0][:2] for index in range(begin, end)}
    return [word for index, word in enumerate(words) if index not in dropped]
