"""Parameters packed as Triton's launcher packs them, and launches of a stand-in for a compiled kernel recorded."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from run.command import environment

from kvcheck.lowering.triton_recorder import NotRecordedError, Started, packed, recording, started
from kvcheck.sanitizer.replay.plan import SCRATCH_POINTERS


def kernel(signature: dict[str, Any], **changes: object) -> SimpleNamespace:
    """What Triton keeps of a compiled kernel, as far as a launch needs it."""
    metadata = {"num_warps": 4, "num_ctas": 1, "shared": 48, "global_scratch_size": 0, **changes}
    return SimpleNamespace(
        name="store_kernel",
        asm={"cubin": b"\x7fELF", "ptx": "text"},
        src=SimpleNamespace(signature=signature),
        metadata=SimpleNamespace(**metadata),
    )


@pytest.mark.parametrize(
    ("kind", "value", "bytes_"),
    [
        ("i1", True, b"\x01"), ("i8", -1, b"\xff"), ("i16", -2, b"\xfe\xff"), ("i32", -3, b"\xfd\xff\xff\xff"),
        ("i64", 1 << 40, (1 << 40).to_bytes(8, "little")), ("u32", 1 << 31, b"\x00\x00\x00\x80"),
        ("u64", (1 << 64) - 1, b"\xff" * 8), ("i32", 1 << 31, b"\x00\x00\x00\x80"),
        ("fp32", 0.1, struct.pack("<f", 0.1)), ("fp64", 0.1, struct.pack("<d", 0.1)), ("fp16", 1.5, b"\x00\x3e"),
        ("bf16", 1.0, b"\x80\x3f"), ("bf16", 1.0 + 2**-8, b"\x80\x3f"), ("bf16", 1.0 + 3 * 2**-8, b"\x82\x3f"),
    ],
)  # fmt: skip
def test_plain_values_are_packed(kind: str, value: float, bytes_: bytes) -> None:
    """Little-endian, as many bytes as the kernel's parameter has; bf16 to the nearest, ties to even."""
    assert packed("f", kind, value) == bytes_


def test_pointers_stay_what_they_are() -> None:
    """Whose memory it is only the caller can tell."""
    tensor = torch.zeros(2)
    assert packed("f", "*fp32", tensor) is tensor


def test_a_launch_with_all_it_takes() -> None:
    """Constants are no parameters; tuples are taken apart; a warp has 32 threads."""
    tensor = torch.zeros(2)
    signature = {"x": "*bf16", "n": "i32", "SIZE": "constexpr", "strides": ("i64", "constexpr", ("fp32",))}
    found = started(kernel(signature, global_scratch_size=8), (5, 6, 1), (tensor, 7, 64, (8, 1, (0.5,))))
    wanted = (b"\x07\0\0\0", b"\x08\0\0\0\0\0\0\0", struct.pack("<f", 0.5))
    assert found == Started("store_kernel", b"\x7fELF", (5, 6, 1), 128, 48, 8, (tensor, *wanted))
    # A version that leaves constants out itself.
    assert started(kernel({"n": "i32", "SIZE": "constexpr"}), (1, 1, 1), (7,)).parameters == (b"\x07\0\0\0",)


@pytest.mark.parametrize(
    ("made", "arguments", "says"),
    [
        (kernel({"n": "i32"}, num_ctas=2), (1,), "launched with num_ctas = 2"),
        (kernel({"n": "i32"}, launch_cooperative_grid=True), (1,), "launch_cooperative_grid = True"),
        (kernel({"n": "i32"}), (1, 2), "has 1 parameters and was handed 2"),
        (kernel({"d": "tensordesc<fp16[8, 8]>"}), (object(),), "type tensordesc"),
    ],
)
def test_what_is_not_made_again_is_said(made: SimpleNamespace, arguments: tuple[object, ...], says: str) -> None:
    """Clusters, cooperative grids, descriptors: one line each."""
    with pytest.raises(NotRecordedError, match=says):
        started(made, (1, 1, 1), arguments)


def test_without_a_cubin_there_is_nothing_to_make_again() -> None:
    """AMD's, say."""
    made = kernel({"n": "i32"})
    made.asm = {"hsaco": b""}
    with pytest.raises(NotRecordedError, match="no cubin"):
        started(made, (1, 1, 1), (1,))


def test_every_launch_in_the_block_is_told_and_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is made, with its own arguments; afterwards Triton is as it was."""
    from triton.compiler.compiler import CompiledKernel  # noqa: PLC0415 - private, as the module under test has it

    made: list[tuple[object, ...]] = []
    monkeypatch.setattr(CompiledKernel, "run", property(lambda _self: lambda *arguments: made.append(arguments)))
    before = vars(CompiledKernel)["run"]
    one: Any = CompiledKernel.__new__(CompiledKernel)
    vars(one).update(vars(kernel({"n": "i32"})))
    told: list[Started] = []
    hidden = (0, "function", "packed", None, None, None)
    with recording(told.append):
        one.run(2, 3, 4, *hidden, 7)
    assert [(each.grid, each.parameters) for each in told] == [((2, 3, 4), (b"\x07\0\0\0",))]
    assert made == [(2, 3, 4, *hidden, 7)]
    assert vars(CompiledKernel)["run"] is before


def test_a_real_kernel_takes_what_is_recorded() -> None:
    """Compiled by the installed Triton: as many parameters, each as long, and pointers to scratch memory behind."""
    script = Path(__file__).parent / "parameters.py"
    compiled = {name: value for name, value in environment().items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, str(script)], env=compiled, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    count = len(said["recorded"])
    assert (said["name"], said["elf"]) == ("store_kernel", b"\x7fELF".hex())
    assert said["taken"][:count] == said["recorded"]
    assert count > 10
    behind = said["taken"][count:]
    assert behind == [8] * len(behind)
    assert len(behind) <= SCRATCH_POINTERS


def test_a_triton_that_starts_kernels_otherwise_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is recorded there, and nothing is taken for recorded."""
    from triton.compiler.compiler import CompiledKernel  # noqa: PLC0415

    monkeypatch.setattr(CompiledKernel, "run", lambda _self: None)
    with pytest.raises(AttributeError, match="no property"), recording(lambda _: None):
        pass
