"""A launch captured in a graph and replayed: a CUDA graph on a GPU, Triton's launches and torch's operators without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch

from kvcheck.lowering.host_graph import HostGraph


class Graph(Protocol):
    """What one call has started, to be started again without it."""

    def capture(self) -> AbstractContextManager[None]:
        """Take down what is called in the block. Once."""

    def replay(self) -> None:
        """Start it again, on the current stream where there is one."""


class CudaGraph:
    """A CUDA graph, captured on a stream."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        """Capture nothing yet."""
        self._stream = stream
        self._graph = torch.cuda.CUDAGraph()

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Capture in place of running. What a capture does not permit raises what torch makes of it."""
        with torch.cuda.graph(self._graph, stream=self._stream):
            yield

    def replay(self) -> None:
        """Replay on the current stream."""
        self._graph.replay()


def graph_on(stream: torch.cuda.Stream | None) -> Graph:
    """An empty graph for a stream, or for the interpreter where there is none."""
    return HostGraph() if stream is None else CudaGraph(stream)
