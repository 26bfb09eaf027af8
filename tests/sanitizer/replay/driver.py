"""A driver without a GPU: memory is host memory, kernels are Python functions over it, every call is noted."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

Kernel = Callable[["FakeDriver", Sequence[int]], None]


class FakeDriver:
    """Stands for libcuda: what `player.Driver` calls. `kernels` are called with the values of `counts` parameters."""

    def __init__(
        self, kernels: dict[str, tuple[Kernel, int]] | None = None, fails: dict[str, int] | None = None
    ) -> None:
        self.kernels, self.fails = kernels or {}, fails or {}
        self.calls: list[str] = []
        self.memory: list[Any] = []
        self.launched: list[tuple[str, tuple[int, ...], list[int]]] = []
        self.modules: list[bytes] = []
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if name in self.fails:
                return self.fails[name]
            known = getattr(type(self), f"_{name}", None)
            if known is not None:
                known(self, *arguments)
            return 0

        return call

    def _cuGetErrorName(self, _status: int, said: Any) -> None:  # noqa: N802 - the driver's own names
        said._obj.value = b"CUDA_ERROR_LAUNCH_FAILED"

    def _cuMemAlloc_v2(self, address: Any, size: ctypes.c_size_t) -> None:  # noqa: N802
        self.memory.append(ctypes.create_string_buffer(b"\xee" * size.value, size.value))
        address._obj.value = ctypes.addressof(self.memory[-1])

    def _cuMemGetAllocationGranularity(self, granule: Any, _properties: Any, _flags: int) -> None:  # noqa: N802
        granule._obj.value = 4096

    def _cuMemAddressReserve(self, address: Any, size: ctypes.c_size_t, *_rest: Any) -> None:  # noqa: N802
        assert size.value > 2 << 30
        # Addresses alone: what is mapped at them lies one fence behind.
        self.memory.append(ctypes.create_string_buffer(1 << 16))
        address._obj.value = ctypes.addressof(self.memory[-1]) - (1 << 30)

    def _cuMemcpyHtoD_v2(self, address: ctypes.c_uint64, data: bytes, size: ctypes.c_size_t) -> None:  # noqa: N802
        ctypes.memmove(address.value, data, size.value)

    def _cuMemcpyDtoH_v2(self, buffer: Any, address: ctypes.c_uint64, size: ctypes.c_size_t) -> None:  # noqa: N802
        ctypes.memmove(buffer, address.value, size.value)

    def _cuModuleLoadData(self, module: Any, code: bytes) -> None:  # noqa: N802
        self.modules.append(code)
        module._obj.value = len(self.modules)

    def _cuModuleGetFunction(self, function: Any, _module: Any, name: bytes) -> None:  # noqa: N802
        self.names.append(name.decode())
        function._obj.value = len(self.names)

    def _cuLaunchKernel(self, function: ctypes.c_void_p, *rest: Any) -> None:  # noqa: N802
        name = self.names[(function.value or 0) - 1]
        sizes = tuple(each.value for each in rest[:7])
        kernel, count = self.kernels[name]
        values = [ctypes.c_uint64.from_address(rest[8][index]).value for index in range(count)]
        self.launched.append((name, sizes, values))
        kernel(self, values)
