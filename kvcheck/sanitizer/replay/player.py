"""Make recorded launches: allocate, upload, start, wait, download. Run as `python -I -S player.py PLAN RESULT`.

Nothing but the standard library and the driver, so that a process under a sanitizer costs what its context costs. The
plan is JSON, and `PLAN.data` the bytes that it points into; see `kvcheck.sanitizer.replay.plan`. The result is JSON:
where every allocation lay, how far it came, and what went wrong; the rows asked for are in `RESULT.data`.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

#: Reserved addresses on either side of a fenced allocation, at which no memory is mapped.
FENCE = 1 << 30
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_STATIC_LIMIT = 48 << 10


class DriverError(Exception):
    """A call of the driver failed: its name and the driver's own word for why."""


class Driver:
    """The driver's calls by name, each checked."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def call(self, name: str, *arguments: object) -> None:
        """Call a function. Raises DriverError where it does not return success."""
        status = getattr(self._library, name)(*arguments)
        if status:
            said = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(said))
            raise DriverError(f"{name}: {said.value.decode() if said.value else f'error {status}'}")

    def number(self, name: str, kind: Any, *arguments: object) -> int:
        """Call a function whose first argument is where it puts a number; that number."""
        value = kind()
        self.call(name, ctypes.byref(value), *arguments)
        return int(value.value or 0)


class Player:
    """Makes the launches of one plan."""

    def __init__(self, driver: Driver, plan: Json, data: bytes) -> None:
        self._driver, self._plan, self._data = driver, plan, data
        self._modules: dict[tuple[int, int], int] = {}
        self.bases: list[int] = []
        self.stage = "starting"

    def play(self) -> bytes:
        """All of it; the rows asked for. Raises DriverError, with `stage` saying where."""
        self.stage = "making a context"
        self._driver.call("cuInit", 0)
        device = self._driver.number("cuDeviceGet", ctypes.c_int, self._plan["device"])
        context = self._driver.number("cuDevicePrimaryCtxRetain", ctypes.c_void_p, device)
        self._driver.call("cuCtxSetCurrent", ctypes.c_void_p(context))
        self.stage = "allocating"
        for allocation in self._plan["allocations"]:
            self.bases.append(self._allocate(allocation["size"], allocation["fence"], device))
        self.stage = "uploading"
        for allocation, offset, start, length in self._plan["uploads"]:
            piece = self._data[start : start + length]
            self._driver.call("cuMemcpyHtoD_v2", _u64(self.bases[allocation] + offset), piece, _size(length))
        for number, kernel in enumerate(self._plan["kernels"], 1):
            self.stage = f"kernel {number}, {kernel['name']}"
            self._launch(kernel)
        self.stage = "downloading"
        return b"".join(self._download(*span) for span in self._plan["downloads"])

    def _allocate(self, size: int, fence: str, device: int) -> int:
        if not fence:
            return self._driver.number("cuMemAlloc_v2", ctypes.c_uint64, _size(size))
        properties = _Properties(type=1, location=_Location(1, device))
        smallest = 0
        granule = self._driver.number(
            "cuMemGetAllocationGranularity", ctypes.c_size_t, ctypes.byref(properties), smallest
        )
        room = -(-size // granule) * granule
        low = self._driver.number(
            "cuMemAddressReserve", ctypes.c_uint64, _size(FENCE + room + FENCE), _size(granule), _u64(0), _u64(0)
        )
        memory = self._driver.number("cuMemCreate", ctypes.c_uint64, _size(room), ctypes.byref(properties), _u64(0))
        self._driver.call("cuMemMap", _u64(low + FENCE), _size(room), _size(0), _u64(memory), _u64(0))
        access = _Access(_Location(1, device), 3)
        self._driver.call("cuMemSetAccess", _u64(low + FENCE), _size(room), ctypes.byref(access), _size(1))
        return low + FENCE + (room - size if fence == "end" else 0)

    def _launch(self, kernel: Json) -> None:
        function = ctypes.c_void_p(
            self._driver.number(
                "cuModuleGetFunction", ctypes.c_void_p, ctypes.c_void_p(self._module(kernel)), kernel["name"].encode()
            )
        )
        if kernel["shared"] > _STATIC_LIMIT:
            self._driver.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, kernel["shared"])
        values = [self._value(argument) for argument in kernel["arguments"]]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        grid = [ctypes.c_uint(each) for each in (*kernel["grid"], kernel["threads"], 1, 1, kernel["shared"])]
        self._driver.call("cuLaunchKernel", function, *grid, None, pointers, None)
        self._driver.call("cuCtxSynchronize")

    def _module(self, kernel: Json) -> int:
        start, length = kernel["code"]
        if (start, length) not in self._modules:
            code = self._data[start : start + length]
            self._modules[start, length] = self._driver.number("cuModuleLoadData", ctypes.c_void_p, code)
        return self._modules[start, length]

    def _value(self, argument: Json) -> Any:
        """A parameter's bytes, in memory that cuLaunchKernel reads them from."""
        if "data" in argument:
            data = bytes.fromhex(argument["data"])
            return ctypes.create_string_buffer(data, len(data))
        allocation = argument["allocation"]
        return _u64(0 if allocation is None else self.bases[allocation] + argument["offset"])

    def _download(self, allocation: int, offset: int, length: int) -> bytes:
        buffer = ctypes.create_string_buffer(length)
        self._driver.call("cuMemcpyDtoH_v2", buffer, _u64(self.bases[allocation] + offset), _size(length))
        return buffer.raw


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of a device."""

    _fields_ = (
        ("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", _Location), ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )  # fmt: skip


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


def _u64(value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)


def _size(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)


def main(plan: str, result: str, library: Any = None) -> int:
    """Play a plan and write its result, whatever comes of it.

    0 whatever it is: a status of this process' own would be a finding of the tool's that it runs under.
    """
    data = Path(f"{plan}.data").read_bytes()
    said: Json = {"bases": [], "stage": "loading the driver", "error": ""}
    try:
        driver = Driver(ctypes.CDLL("libcuda.so.1") if library is None else library)
        player = Player(driver, json.loads(Path(plan).read_text(encoding="utf-8")), data)
        try:
            Path(f"{result}.data").write_bytes(player.play())
            player.stage = "done"
        finally:
            said |= {"bases": player.bases, "stage": player.stage}
    except (DriverError, OSError) as error:
        said["error"] = str(error)
    Path(result).write_text(json.dumps(said), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
