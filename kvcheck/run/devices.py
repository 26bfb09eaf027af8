"""`--device`: which GPUs, or the CPU, a run's cases are shared among."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from kvcheck.errors import SelectionError

_ENTRY = re.compile(r"auto|cpu|cuda(:\d+)?")


def devices_of(text: str) -> tuple[str, ...]:
    """The entries of a list such as `cuda:0,cuda:1`, each of which gets a nursery. Raises SelectionError.

    An entry may stand twice: two nurseries then share it.
    """
    entries = tuple(entry.strip() for entry in text.split(","))
    for entry in entries:
        if not _ENTRY.fullmatch(entry):
            raise SelectionError(
                f"--device: {entry!r} is not accepted; expected auto, cpu, cuda, or GPUs as in cuda:0,cuda:1"
            )
    kinds = {entry.partition(":")[0] for entry in entries}
    if len(kinds) > 1:
        raise SelectionError(f"--device: {text!r} mixes {' and '.join(sorted(kinds))}; one report is of one kind")
    return entries


def visible(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that leave a process only the GPU that an entry names: it is then that process's first.

    The number counts the GPUs that `CUDA_VISIBLE_DEVICES` leaves, as torch counts them. Raises SelectionError where it
    leaves fewer.
    """
    _, _, number = device.partition(":")
    if not number:
        return {}
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return {"CUDA_VISIBLE_DEVICES": number}
    left = [name.strip() for name in listed.split(",") if name.strip()]
    if int(number) >= len(left):
        raise SelectionError(f"--device: there is no {device}: CUDA_VISIBLE_DEVICES={listed!r} leaves {len(left)}")
    return {"CUDA_VISIBLE_DEVICES": left[int(number)]}


def share(jobs: int, entries: int, *, most: int) -> int:
    """Children at a time for each entry: as asked, or an equal part of the cores, from 1 to `most`."""
    return jobs or max(1, min(len(os.sched_getaffinity(0)) // entries, most))
