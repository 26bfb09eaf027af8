"""torch's dispatch modes without torch's compiler. The only place that touches how torch sets a mode up.

From torch 2.9 on a mode's first dispatch imports `torch._dynamo`, two seconds for nothing here: kvcheck compiles
nothing under it. `_should_skip_dynamo` is private; a torch without it pays the two seconds, and nothing else changes.
"""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class PlainDispatchMode(TorchDispatchMode):
    """A dispatch mode whose `__torch_dispatch__` is called as it is."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
