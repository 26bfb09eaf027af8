"""Kernels that each tool must catch, or it does not see on this machine: in PTX, which any driver compiles.

Each takes `source`, 64 bytes of which the first 32 are initialised, and `out`, four bytes.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from kvcheck.sanitizer.replay.recording import Argument, KernelLaunch

Tool: TypeAlias = Literal["memcheck", "initcheck", "racecheck", "synccheck"]

#: Bytes of the source, how many of them are initialised, and bytes of the output.
SOURCE, INITIALISED, OUT = 64, 32, 4

_HEAD = """
.version 6.3
.target sm_75
.address_size 64
"""

_KERNEL = """
.visible .entry {name}(.param .u64 source, .param .u64 out)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<5>;
    .shared .align 4 .b32 word;
    ld.param.u64 %rd1, [source];
    ld.param.u64 %rd2, [out];
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mov.u32 %r1, %tid.x;
    {body}
    st.global.u32 [%rd4], %r2;
    ret;
}}
"""

#: What each kernel does wrong, or, `right`, does right: by name, the body.
_BODIES = {
    "right": "ld.global.u32 %r2, [%rd3];",
    "out_of_bounds": f"ld.global.u32 %r2, [%rd3+{SOURCE}];",
    "uninitialised": f"ld.global.u32 %r2, [%rd3+{INITIALISED}];",
    # Every thread stores its own index to one word, and none waits for another.
    "race": "st.shared.u32 [word], %r1; ld.shared.u32 %r2, [word];",
    # All threads of a warp wait at a barrier that is for the first alone.
    "barrier": "mov.u32 %r2, 1; bar.warp.sync 1;",
}

#: The known-bad kernel of each tool, and how many threads run it.
KNOWN_BAD: dict[Tool, tuple[str, int]] = {
    "memcheck": ("out_of_bounds", 1), "initcheck": ("uninitialised", 1), "racecheck": ("race", 64),
    "synccheck": ("barrier", 32),
}  # fmt: skip


def kernel(name: str, threads: int) -> KernelLaunch:
    """One of the kernels, as if it had been recorded: `source` is the tensor `k`, `out` is `k_codes`."""
    code = (_HEAD + _KERNEL.format(name=f"kvcheck_{name}", body=_BODIES[name])).encode() + b"\0"
    arguments = (Argument(pointer=True, tensor="k"), Argument(pointer=True, tensor="k_codes"))
    return KernelLaunch(f"kvcheck_{name}", code, (1, 1, 1), threads, 0, 0, arguments)
