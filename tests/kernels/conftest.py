"""Triton's interpreter for this process, without leaving its variable behind for processes that other tests start."""

from __future__ import annotations

import importlib

import pytest
import torch

#: What defines kernels. Each must be imported while the variable is set: it is read where a kernel is defined.
MODULES = ("encode", "sweep", "store", "specimens.shared_pitch")


@pytest.fixture(scope="session")
def interpreter() -> None:
    """Import kvcheck's kernels for the interpreter; fail, with the reason, where they came for a GPU before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        for name in MODULES:
            importlib.import_module(f"kvcheck.kernels.{name}")
        from kvcheck.kernels.sweep import encode, encode_kernel  # noqa: PLC0415 - imports triton

        kind = type(encode_kernel).__name__
        if kind != "InterpretedFunction":
            pytest.fail(f"kvcheck.kernels was imported without TRITON_INTERPRET=1 before (a kernel is a {kind})")
        # A first launch imports what reads the variable too.
        encode(torch.zeros(1), block=16)
