"""What all tests share: GPU tests are skipped, and say so, where there is no GPU."""  # noqa: INP001 - each folder of tests is a package of its own

from __future__ import annotations

import os
import signal
import threading

import pytest

# Triton reads it where a kernel is defined, its own library's included: set later, it would depend on the order of
# tests which of them are interpreted. What runs on a GPU runs in processes of its own, which unset it.
os.environ["TRITON_INTERPRET"] = "1"

# A shell's background jobs ignore Ctrl-C, and so would all that tests start and interrupt.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores: many a test waits for processes that hang, sleep or are stopped."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` where torch sees no NVIDIA GPU. CUDA is asked for, never initialised.

    What compiles in this process comes first: Triton's interpreter leaves its language patched behind it.
    """
    items.sort(key=lambda item: "test_cast_lowering" not in item.nodeid)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _sees_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU, and torch sees none here"))


def _sees_gpu() -> bool:
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch  # noqa: PLC0415 - two seconds, for runs that have a GPU test alone

    return torch.cuda.is_available()
