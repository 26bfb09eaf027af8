"""What the compiler makes of a target's kernels for the arch asked for, found beside the run of its cases."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType

from kvcheck.errors import KvcheckError
from kvcheck.lowering.compile_facts import TIMEOUT, compile_facts
from kvcheck.run.marked import end_marked
from kvcheck.run.options import Options
from kvcheck.run.protocol import MARK, TargetInfo
from kvcheck.schema import Case, CompileFact
from kvcheck.targets.engine import ENGINE_PATH
from kvcheck.targets.load import KERNELS as OWN

#: Cases whose launches are compiled: the first of each dtype and shape of a row.
MOST = 6


class Compiling:
    """Compiles in another process, as soon as it is made; `facts` waits for it. A context manager, which ends it."""

    def __init__(self, spec: str, info: TargetInfo, cases: Sequence[Case], options: Options, arch: str) -> None:
        """Nothing is compiled where the target is not Triton's, nor where its launches compile anyway.

        That is on a GPU, unless an arch was asked for. kvcheck's own kernels are compiled by its tests.
        """
        self._arch = arch
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._facts: Future[tuple[CompileFact, ...]] | None = None
        self._mark = secrets.token_hex(16)
        own = spec in OWN or spec.startswith("specimen:")
        wanted = bool(options.archs) or (info.execution == "interpreted" and not own)
        if wanted and info.triton and info.missing is None:
            path, _, _ = spec.partition("::")
            one = f"{path}::{info.name}" if path.endswith(".py") else spec
            roots = os.pathsep.join(str(folder.resolve()) for folder in options.engine_paths)
            self._facts = self._pool.submit(
                compile_facts,
                one,
                few(cases),
                (arch,),
                variables={MARK: self._mark, **({ENGINE_PATH: roots} if roots else {})},
                timeout=min(TIMEOUT, options.load_timeout + MOST * options.timeout),
            )

    def facts(self) -> tuple[CompileFact, ...]:
        """What was found; that nothing is known, and why, where compiling could not be tried."""
        if self._facts is None:
            return ()
        try:
            return self._facts.result()
        except KvcheckError as error:
            return (CompileFact(self._arch, "", "none", error=str(error)),)

    def __enter__(self) -> Compiling:  # noqa: PYI034 - typing.Self came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._facts is not None and not self._facts.done():
            end_marked(self._mark)
            wait((self._facts,), timeout=0.1)
        self._pool.shutdown()


def few(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The first case of each dtype and shape of a row, `MOST` at most: what kernels are specialised for."""
    first: dict[tuple[object, ...], Case] = {}
    for case in cases:
        first.setdefault((case.dtype, case.heads, case.head_dim, case.dim_v), case)
    return tuple(first.values())[:MOST]
