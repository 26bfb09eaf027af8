"""Triton's launches compiled for another arch and run by nobody. The only place that fakes Triton's driver.

`triton.runtime.driver`, `JITFunction.run` and `Autotuner._bench` are private. Seen to work on triton 3.6.0, 3.7.1 and
3.9.0. No GPU is needed, nor touched where there is one: tensors may lie on the CPU.
"""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from kvcheck.lowering.archs import AMD, capability, check_arch
from kvcheck.lowering.cast_lowering import casts, divisions
from kvcheck.lowering.compile_errors import compile_failure
from kvcheck.lowering.facts import Compiled, CompileFact
from kvcheck.lowering.messages import described
from kvcheck.lowering.triton_key import remember_triton_key

#: Threads of a warp, and of what AMD calls a wavefront.
_WARP, _WAVEFRONT = 32, 64
#: Characters of a compiler's message that are kept.
_LOG = 4000


@dataclass
class FakeDriver:
    """What Triton asks of a driver before it launches: one device of the given arch, and nothing else."""

    arch: str

    def get_current_device(self) -> int:
        """The only device."""
        return 0

    def get_current_stream(self, _device: int | None = None) -> int:
        """The default stream."""
        return 0

    def get_current_target(self) -> object:
        """What to compile for."""
        from triton.backends.compiler import GPUTarget  # noqa: PLC0415 - slow to import

        if self.arch in AMD:
            return GPUTarget("hip", self.arch, _WAVEFRONT)
        return GPUTarget("cuda", capability(self.arch), _WARP)

    def get_active_torch_device(self) -> object:
        """Where tensors lie that a kernel's own wrapper makes."""
        import torch  # noqa: PLC0415

        return torch.device("cpu")


@contextlib.contextmanager
def compiling(arch: str) -> Iterator[list[CompileFact]]:
    """Within the block, compile every Triton launch of this process for `arch` and run none; one fact a launch.

    A launch that does not compile is noted and passed over, so that those behind it are seen. An autotuned kernel is
    compiled in its first configuration that the rest allow. Raises SelectionError for an unknown arch, ImportError
    where there is no Triton, AttributeError where this Triton has no such internals. Not for a process that launches
    kernels afterwards: Triton keeps what it asked of the driver.
    """
    check_arch(arch)
    from triton.runtime.autotuner import Autotuner  # noqa: PLC0415 - slow to import, and private
    from triton.runtime.driver import driver  # noqa: PLC0415
    from triton.runtime.jit import JITFunction  # noqa: PLC0415

    facts: list[CompileFact] = []
    run, bench = JITFunction.run, Autotuner._bench  # noqa: SLF001

    def compile_only(self: object, *args: object, **kwargs: object) -> object:
        name = str(getattr(getattr(self, "fn", None), "__name__", "kernel"))
        try:
            kernel = run(self, *args, **{**kwargs, "warmup": True})
            # Triton 3.6 and later may compile in the background.
            kernel = kernel.result() if hasattr(kernel, "result") else kernel
            facts.append(_fact(arch, name, kernel))
        except Exception as error:  # noqa: BLE001 - whatever a compiler raises
            facts.append(_failure(arch, name, error))
            return None
        return kernel

    remember_triton_key()
    driver.set_active(FakeDriver(arch))
    JITFunction.run, Autotuner._bench = compile_only, lambda *_, **__: [0.0, 0.0, 0.0]  # noqa: SLF001
    try:
        yield facts
    finally:
        JITFunction.run, Autotuner._bench = run, bench  # noqa: SLF001
        with contextlib.suppress(RuntimeError):  # no GPU: there is no driver to go back to
            driver.reset_active()


def _fact(arch: str, name: str, kernel: object) -> CompileFact:
    """What the assembly of a compiled kernel says."""
    asm = getattr(kernel, "asm", {})
    assembly = str(asm.get("ptx", asm.get("amdgcn", "")))
    directive = re.search(r'^\s*(?:\.target\s+(\w+)|\.amdgcn_target\s+"[^"]*?(gfx\w+))', assembly, flags=re.MULTILINE)
    target = (directive[1] or directive[2]) if directive else ""
    fusion = getattr(getattr(kernel, "metadata", None), "enable_fp_fusion", None)
    return CompileFact(
        arch, name, "compiled", target=target, casts=casts(assembly), divisions=divisions(assembly),
        fp_fusion=fusion if isinstance(fusion, bool) else None,
    )  # fmt: skip


def _failure(arch: str, name: str, error: Exception) -> CompileFact:
    """The compiler's message; "nothing is known" where it was not the compiler that raised, but what called it."""
    log = "".join(traceback.format_exception(error))
    outcome: Compiled = "failed" if compile_failure(error) is not None or _by_compiler(error) else "none"
    return CompileFact(arch, name, outcome, error=described(error), log=log[-_LOG:])


def _by_compiler(error: BaseException) -> bool:
    """Whether an exception, or one that it comes from, passed through Triton's compiler or one of its back ends."""
    step: BaseException | None = error
    while step is not None:
        files = (frame.filename for frame in traceback.extract_tb(step.__traceback__))
        if any("/triton/compiler/" in file or "/triton/backends/" in file for file in files):
            return True
        step = step.__cause__
    return False
