"""`kvcheck sanitize`: which witness a machine has, that it sees, and the cases of a target before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

from kvcheck.errors import SelectionError
from kvcheck.run.compute_sanitizer import MISSING, Sanitizer, find
from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery
from kvcheck.run.proof import doubts
from kvcheck.run.protocol import Hello, TargetInfo
from kvcheck.run.scratch import scratch
from kvcheck.run.session import run_target
from kvcheck.run.tools import Setup, Way, expandable, run_under_tools
from kvcheck.sanitizer.replay.known_bad import Tool
from kvcheck.schema import Case, CaseResult

#: The tools that see what kernels read and write, each in its layout. The others are for the asking.
TOOLS: tuple[Tool, ...] = ("initcheck", "memcheck")


@dataclass(frozen=True)
class Asked:
    """Tools, none for the usual ones; and how launches come under them, None for as each can be."""

    tools: tuple[Tool, ...] = ()
    way: Way | None = None


class Witnesses:
    """What watches a run: compute-sanitizer where cases run on a GPU, shadow memory in the interpreter."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def name(self, hello: Hello) -> str:
        """What the report says of it."""
        return f"compute-sanitizer {self._sanitizer.version}" if hello.cuda else "shadow memory"

    def check(self, hello: Hello) -> None:
        """Raise SelectionError where what was asked for is not to be had on this machine."""
        if not hello.cuda and (self._asked.tools or self._asked.way):
            option = f"--tool {self._asked.tools[0]}" if self._asked.tools else f"--{self._asked.way}"
            raise SelectionError(f"{option}: compute-sanitizer needs a GPU, and these cases run on the CPU")
        if hello.cuda:
            self.name(hello)  # raises where there is no compute-sanitizer
            refused = expandable(os.environ) if self._asked.way == "whole" else None
            if refused is not None:
                raise SelectionError(f"--whole: {refused}")

    def run(
        self,
        nursery: Nursery,
        spec: str,
        info: TargetInfo,
        cases: Sequence[Case],
        options: Options,
        on_result: Callable[[CaseResult], None],
    ) -> tuple[CaseResult, ...]:
        """The results of all cases, in the cases' order. `on_result` is called with each as it comes."""
        if not nursery.hello.cuda:
            return run_target(nursery, info, cases, replace(options, witness="shadow"), on_result)
        setup = Setup(
            self._sanitizer, self._doubts, self._asked.way, spec, info, nursery.environment(), options.timeout
        )
        return run_under_tools(nursery, cases, options, setup, on_result)

    @cached_property
    def _sanitizer(self) -> Sanitizer:
        found = find()
        if found is None:
            raise SelectionError(MISSING)
        return found

    @cached_property
    def _doubts(self) -> dict[str, str]:
        """The tools, and why one of them is not to be believed here."""
        tools = self._asked.tools or TOOLS
        with scratch() as folder, ThreadPoolExecutor(len(tools)) as pool:
            said = pool.map(lambda tool: doubts(self._sanitizer, tool, folder), tools)
            return dict(zip(tools, said, strict=True))
