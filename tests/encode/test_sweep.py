"""Inputs through an encoder on a device, here the CPU's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvcheck.encode.cells import merged
from kvcheck.encode.judge import judge
from kvcheck.encode.probes import sample
from kvcheck.formats import bits
from kvcheck.formats.spec import E4M3FN, Policy
from kvcheck.run import encode_sweep
from kvcheck.run.encode_sweep import Against, halves, some

from .test_cells import rows

CPU = torch.device("cpu")


def right(values: torch.Tensor, codes: torch.Tensor) -> None:
    """The oracle as an encoder."""
    codes.numpy()[:] = bits.encode(values.float().numpy())


def one_wrong(values: torch.Tensor, codes: torch.Tensor) -> None:
    """Wrong for one input alone."""
    right(values, codes)
    codes[values == 1.0625] = 0x39


def test_a_sample_holds_what_it_says() -> None:
    """Three million of four thousand million, every binade of both signs, no input twice."""
    patterns = sample(E4M3FN)
    assert 3_000_000 < len(patterns) < 4_000_000
    assert len(np.unique(patterns >> 23)) == 512
    assert (np.diff(patterns.astype(np.int64)) > 0).all()


def test_a_sample_is_not_everything() -> None:
    """An encoder that is wrong for one input of the sample is seen, with that input."""
    found = judge(some(one_wrong, E4M3FN, CPU), E4M3FN, Policy())
    assert found.differ == 1
    assert found.differences[0].examples[0].x == "1.0625"
    assert found.differences[0].examples[0].bits == 0x3F880000


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_halves_are_all_there_are(dtype: str) -> None:
    """2^16 inputs, examples by their own bits."""
    cells = halves(one_wrong, E4M3FN, CPU, dtype)  # type: ignore[arg-type]
    assert cells.inputs == 1 << 16
    found = judge(cells, E4M3FN, Policy(), dtype)  # type: ignore[arg-type]
    assert found.differ == 1
    assert found.differences[0].examples[0].bits == {"bf16": 0x3F88, "fp16": 0x3C40}[dtype]


def test_every_input_is_run_once_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """In small: 2^20 inputs in chunks, of which the upper half are negative; the watch sees each chunk."""
    monkeypatch.setattr(encode_sweep, "ALL", 1 << 20)
    seen: list[int] = []
    bits_seen: list[torch.Tensor] = []

    def remember(values: torch.Tensor, codes: torch.Tensor) -> None:
        bits_seen.append(values.view(torch.int32).clone())
        codes.fill_(len(bits_seen))

    cells = encode_sweep.every(remember, E4M3FN, CPU, chunk=1 << 17, watch=lambda start, _: seen.append(start))
    assert cells.inputs == 1 << 20
    assert seen == [index << 17 for index in range(8)]
    # In small the sign is at another place: what counts is that patterns ascend, and wrap in the middle.
    half = 1 << 19
    assert torch.cat(bits_seen).tolist() == [*range(half), *range(-half, 0)]


@pytest.mark.parametrize("start", [0x3C800000 - (1 << 15), 0xBF000000, 0x7F7F0000])
def test_counting_on_the_device_is_the_same(start: int) -> None:
    """Many runs, by runs and by counting."""
    codes = torch.randint(0, 3, (1 << 17,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    by_runs = encode_sweep._cells(start, codes, E4M3FN)
    assert rows(by_runs) == rows(merged([encode_sweep._counted(start, codes, E4M3FN)]))


def test_differences_are_counted_against_an_encoder() -> None:
    """By elements, without cells: one wrong input in two chunks."""
    against = Against(right)
    for start in (0x3F800000, 0xBF800000):
        patterns = torch.arange(1 << 20, dtype=torch.int64) + start
        values = torch.from_numpy(patterns.numpy().astype(np.uint32).view(np.float32))
        codes = torch.empty(1 << 20, dtype=torch.uint8)
        one_wrong(values, codes)
        against(start, codes)
    assert against.differ() == 1
    assert Against(right).differ() == 0
