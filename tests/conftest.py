"""What all tests share: GPU tests are skipped, and say so, where there is no GPU."""  # noqa: INP001 - each folder of tests is a package of its own

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` where torch sees no NVIDIA GPU. CUDA is asked for, never initialised."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _sees_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU, and torch sees none here"))


def _sees_gpu() -> bool:
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch  # noqa: PLC0415 - two seconds, for runs that have a GPU test alone

    return torch.cuda.is_available()
