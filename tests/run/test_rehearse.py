"""What a nursery does before it forks leaves it fit to fork."""

from __future__ import annotations

from kvcheck.run.options import Options
from kvcheck.run.pool import Nursery


def test_a_rehearsed_nursery_has_one_thread_and_forks() -> None:
    """A launch in the interpreter starts no thread; else every case would need a fresh interpreter."""
    with Nursery("store", Options(device="cpu", jobs=1)) as nursery:
        assert (nursery.hello.threads, nursery.hello.fresh) == (1, None)
        assert nursery.label == "cpu"
