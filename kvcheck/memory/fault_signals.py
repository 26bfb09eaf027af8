"""A look at the signal that ends a process, from inside: where an instruction failed, or who sent it.

What waits for a process learns the signal's number and no more.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from typing import TypeAlias

#: Called with the addresses of the signal's siginfo_t and ucontext_t.
Note: TypeAlias = Callable[[int, int], None]

#: From <signal.h> and <ucontext.h>, 64-bit Linux. What stands in siginfo_t behind its header is an address where an
#: instruction failed, and a process id where somebody sent the signal, which its code tells: above zero it is the
#: kernel's.
_CODE_AT = 8
_BODY_AT = 16
#: x86-64: the error code in ucontext_t, whose second bit says that the access was a write.
_ERROR_AT = 192
_WRITE = 2
_SIGINFO = 4
_SIZE_OF_MASK = 128


class _Action(ctypes.Structure):
    """The C library's struct sigaction on 64-bit Linux."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint8 * _SIZE_OF_MASK),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
#: What a signal may call must outlive every function.
_kept: list[object] = []


def on_signal(number: int, note: Note) -> None:
    """Call `note` when this process gets a signal, once; then the handler before has its turn.

    The handler is Python. Where an instruction failed it runs inside that instruction, in the one thread that there
    is; what somebody sent may come at any time. So `note` does as little as it can.
    """
    libc = ctypes.CDLL(None)
    libc.sigaction.argtypes = [ctypes.c_int, ctypes.POINTER(_Action), ctypes.POINTER(_Action)]
    before = _Action()

    def handle(number: int, info: int, context: int) -> None:
        libc.sigaction(number, ctypes.byref(before), None)
        with contextlib.suppress(OSError):  # a full disk takes no note
            note(info, context)
        if made_by_an_instruction(info):
            return  # which fails once more
        if before.flags & _SIGINFO and before.handler:
            _Handler(before.handler)(number, info, context)  # it is to see who sent it, too
        else:
            os.kill(os.getpid(), number)

    handler = _Handler(handle)
    action = _Action(handler=ctypes.cast(handler, ctypes.c_void_p), flags=_SIGINFO)
    libc.sigaction(number, ctypes.byref(action), ctypes.byref(before))
    _kept.extend((handler, before, action))


def made_by_an_instruction(info: int) -> bool:
    """Whether a siginfo_t is of an instruction that failed, and not of somebody who sent a signal."""
    return ctypes.c_int.from_address(info + _CODE_AT).value > 0


def address_of(info: int) -> int:
    """The address at which an instruction failed."""
    return ctypes.c_uint64.from_address(info + _BODY_AT).value


def sender_of(info: int) -> int:
    """The process that sent a signal."""
    return ctypes.c_int.from_address(info + _BODY_AT).value


def wrote(context: int) -> bool:
    """On x86-64, whether the access that failed was a write."""
    return bool(ctypes.c_uint64.from_address(context + _ERROR_AT).value & _WRITE)
