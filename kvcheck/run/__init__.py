"""Runs each case in a process of its own, and wires the stages together.

The run. `command` runs targets one after the other, as `options` and `devices` say; `session` runs one target's
cases in the `order` that suits the compiler; `feed` is its loop, and `room` keeps out what the machine has no memory
for. `journal` holds what has ended, under the `journal_key` of all that it depends on; `files` are whole or absent,
`scratch` folders do not stay, `interrupts` come once, and `locks` keep two runs apart.

A case. `pool` starts a `nursery`, which loads the target and will `serve` the jobs of the `protocol`: a `child` each,
or `fresh` interpreters by `cold`. Before the forks there are `imports`, `rehearse`, `huge_pages` and `holes`, around
them `kernel_cache`, `limits`, `shield`, `marked`, `outside` and `hanging`: what targets cost, kill or leave. In the
child, `case` places, makes each `launch` on a `stream` of its own, `captured` in a `graph` or `graphless`, and writes
the emission; `reference` proves kvcheck's own side first, asked by the `yardstick`; `witness` sees copies, strides;
`untouched`, by `dict_versions`, that kvcheck's functions are still its own; `failure` is an exception in words.

Its result. `judges` keep a `judge_worker` each; `result` is the verdict, the diagnosis, or why there is none; `keep`
holds emissions for later. `confirm`, `repeated`, `astray` and `together` (by `several`, with `blame`) run cases once
more. `environment` is the machine.

Beside it. `sanitize` finds a tool (`proof`: it sees); `tools` runs it by `compute_sanitizer`, over a launch that is
`recorded` and `replayed`, or over the `whole` process; `saw` reads it, `shadowed` is the interpreter's own, read by
`shadow_seen`; `sanitized` joins it to the verdict. `compiled` asks a `compile_worker`. `encode_command` asks an
`encode_worker` by `encode_protocol`, for an `encode_answer`: `encoders` over an `encode_sweep` under `encode_watch`.
"""
