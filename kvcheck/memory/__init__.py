"""Places the tensors of a case, and gives a target real memory to work on.

First as arithmetic: `place` makes a placement out of `blocks`, one for each tensor that an engine would allocate:
`sources` for K and V, and the buffers that `forms` say a cache has. `layouts` lay them out as an allocator would,
`fences` against addresses that nothing is mapped at.

Then as memory: `arena` allocates it (`fenced`, where there are fences), fills it and reads it back; `cache` is what
a target is handed. `overrun` says who ran into a fence, by the `fault_signals` that ended the process.
"""
