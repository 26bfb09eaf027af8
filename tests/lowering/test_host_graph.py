"""A call taken down and made again: operators of torch and launches of Triton, and what a capture does not permit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import pytest
import torch

from kvcheck.lowering.host_graph import HostGraph
from kvcheck.lowering.torch_modes import PlainDispatchMode

from .graph_kernels import twice


def captured(call: Callable[[], object]) -> HostGraph:
    """A graph of what `call` does."""
    graph = HostGraph()
    with graph.capture():
        call()
    return graph


def test_a_replay_computes_with_what_stands_there_now() -> None:
    """Copies, sums in place, views of them, lists of results: none of it keeps a value."""
    x, out = torch.arange(6.0), torch.zeros(6)

    def call() -> None:
        wide = x.clone().view(2, 3)
        wide.add_(1)
        first, second = torch.unbind(wide.t().contiguous().t() * torch.ones_like(wide))
        low, high = torch.split(torch.cat([first, second]), 3)
        _, order = torch.sort(torch.stack([low, high]).flatten(), descending=True)
        out.copy_(order)

    graph = captured(call)
    assert out.tolist() == [5, 4, 3, 2, 1, 0]
    x.copy_(torch.tensor([5.0, 3.0, 1.0, 0.0, 2.0, 4.0]))
    graph.replay()
    assert out.tolist() == [0, 5, 1, 4, 2, 3]
    x.copy_(torch.arange(6.0))
    graph.replay()
    assert out.tolist() == [5, 4, 3, 2, 1, 0]


def test_what_was_filled_is_filled_again() -> None:
    """Zeros of the call's own are zeros in every replay, however much was added to them."""
    x, out = torch.ones(3), torch.zeros(3)

    def call() -> None:
        own = torch.zeros(3)
        own += x
        out.copy_(own)

    graph = captured(call)
    graph.replay()
    graph.replay()
    assert out.tolist() == [1, 1, 1]


def test_a_value_of_the_host_stays_what_it_was() -> None:
    """What Python has computed is the capture's, in each replay."""
    calls, out = [], torch.zeros(1)

    def call() -> None:
        calls.append(1)
        out.fill_(len(calls))

    graph = captured(call)
    graph.replay()
    assert (len(calls), out.tolist()) == (1, [1])


def test_launches_of_triton_are_made_again() -> None:
    """In their order among torch's operators, which inside a launch are the interpreter's own."""
    x, out = torch.arange(4.0), torch.zeros(4)

    def call() -> None:
        own = x + 1
        twice[(1,)](own, own, 4, BLOCK=4)
        out.copy_(own - 1)

    graph = captured(call)
    assert out.tolist() == [1, 3, 5, 7]
    x.zero_()
    graph.replay()
    assert out.tolist() == [1, 1, 1, 1]


def test_what_another_thread_launches_is_not_captured() -> None:
    """On a GPU a thread has a stream of its own: its launch is made at once, and in no replay."""
    x, out = torch.arange(4.0), torch.zeros(4)

    def call() -> None:
        thread = threading.Thread(target=lambda: twice[(1,)](x, out, 4, BLOCK=4))
        thread.start()
        thread.join()

    graph = captured(call)
    out.zero_()
    graph.replay()
    assert out.tolist() == [0, 0, 0, 0]


def test_what_the_interpreter_does_in_a_launch_is_no_step_of_its_own() -> None:
    """A mode of the target's is on, so that the graph's cannot be taken off for the launch."""

    class Own(PlainDispatchMode):  # type: ignore[no-untyped-call]
        """One that changes nothing."""

        def __torch_dispatch__(
            self,
            func: Callable[..., object],
            types: Sequence[type],
            args: Sequence[object] = (),
            kwargs: Mapping[str, object] | None = None,
        ) -> object:
            return func(*args, **(kwargs or {}))

    x, out = torch.arange(4.0), torch.zeros(4)

    def call() -> None:
        with Own():  # type: ignore[no-untyped-call]
            twice[(1,)](x, out, 4, BLOCK=4)

    graph = captured(call)
    assert len(graph._steps) == 1
    x.fill_(3)
    graph.replay()
    assert out.tolist() == [6, 6, 6, 6]


@pytest.mark.parametrize(
    "read",
    [lambda x: x.sum().item(), lambda x: bool((x > 1).any()), lambda x: torch.equal(x, x), torch.nonzero,
     lambda x: x[x > 1], lambda x: x.tolist(), lambda x: x.cpu()],
    ids=["item", "bool", "equal", "nonzero", "mask", "list", "cpu"],
)  # fmt: skip
def test_what_waits_for_a_value_is_not_permitted(read: Callable[[torch.Tensor], object]) -> None:
    """As on a GPU: the stream cannot be waited for while it is captured, nor a shape hang on a value."""
    x = torch.arange(4.0)
    with pytest.raises(RuntimeError, match=r"not permitted while a graph is captured"):
        captured(lambda: read(x))


def test_torch_says_that_a_stream_is_captured_and_only_then() -> None:
    """Launchers ask, and do something else."""
    asked = torch.cuda.is_current_stream_capturing
    found = []
    captured(lambda: found.append(torch.cuda.is_current_stream_capturing()))
    assert found == [True]
    with pytest.raises(ZeroDivisionError):
        captured(lambda: 1 / 0)
    assert torch.cuda.is_current_stream_capturing is asked
