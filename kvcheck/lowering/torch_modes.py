"""torch's dispatch modes without torch's compiler. The only place that touches how torch sets a mode up.

From torch 2.9 on a mode's first dispatch imports `torch._dynamo`, two seconds for nothing here: kvcheck compiles
nothing under it. `_should_skip_dynamo` is private; a torch without it pays the two seconds, and nothing else changes.
So are the functions by which a mode is taken off for a while; a torch without them leaves it on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

_innermost, _pop, _push = (
    getattr(_python_dispatch, name, None) for name in ("_get_current_dispatch_mode", "_pop_mode", "_push_mode")
)


class PlainDispatchMode(TorchDispatchMode):
    """A dispatch mode whose `__torch_dispatch__` is called as it is."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Take the mode off within the block, where it is the innermost: another that is on sees what it always did."""
        if _innermost is None or _pop is None or _push is None or _innermost() is not self:
            yield
            return
        _pop()
        try:
            yield
        finally:
            _push(self)
