"""The encoders that a request names, as this process runs them. Triton's switches must be set before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from kvcheck.encode.facts import Dtype
from kvcheck.formats.spec import E4M3FN, Format, Policy, find_format
from kvcheck.lowering.archs import cast_model
from kvcheck.lowering.sweep import model_codes
from kvcheck.run.encode_protocol import MODEL, SOFTWARE, TORCH, EncodeRequest
from kvcheck.run.encode_sweep import Encode
from kvcheck.targets.encoders import LoadedEncoder, load_encoders, policy_of
from kvcheck.targets.identity import uses_triton

#: Elements a program of the interpreter encodes: it pays by the program.
INTERPRETED_BLOCK = 1 << 16


@dataclass(frozen=True)
class Encoder:
    """One encoder as this process runs it."""

    name: str
    encode: Encode
    number_format: Format
    policy: Policy
    arch: str
    execution: str
    dtypes: tuple[Dtype, ...]
    #: Inputs that are not compared
    undefined: frozenset[str] = frozenset()
    #: Why its codes cannot be believed, or it cannot run: an outcome and a reason
    held_back: tuple[str, str] | None = None


def encoders(request: EncodeRequest) -> list[Encoder]:
    """What a request names. Raises KvcheckError."""
    if request.target is None:
        doubt = None if request.own else _interpreter_doubt(request)
        return [_built_in(name, request, doubt) for name in request.encoders]
    loaded = load_encoders(request.target)
    interpreted = not request.own and any(uses_triton(one.module) for one in loaded)
    doubt = _interpreter_doubt(request) if interpreted else None
    return [_target(one, request, doubt) for one in loaded]


def _interpreter_doubt(request: EncodeRequest) -> str | None:
    """Make the interpreter cast as the arch's compiler does. Why it does not, or None."""
    from kvcheck.lowering import interpreter_cast, interpreter_probe  # noqa: PLC0415 - imports triton, interpreted

    interpreter_cast.install(request.arch)
    return interpreter_probe.probe(request.arch)


def _built_in(name: str, request: EncodeRequest, doubt: str | None) -> Encoder:
    execution = _execution(request)
    block = {} if request.own else {"block": INTERPRETED_BLOCK}
    from kvcheck.kernels import sweep  # noqa: PLC0415 - imports triton, whose switches are set by now

    if name == SOFTWARE:
        return _own(name, lambda x, out: sweep.encode_into(x, out, **block), request.arch, execution, request)
    if name == TORCH:
        where = "native" if request.own else "host"
        return _own(name, sweep.torch_cast_into, request.own, where, request)
    model = cast_model(request.arch)
    held = None if model.rounding("fp32") is not None or request.own else ("unsupported", str(model.reason))
    if not model.compiles:
        held = ("unsupported", str(model.reason))
    if name == MODEL:
        return _own(name, _model(request.arch), request.arch, "host", request, held)
    held = held or (("inconclusive", doubt) if doubt else None)
    return _own(name, lambda x, out: sweep.cast_into(x, out, **block), request.arch, execution, request, held)


def _own(
    name: str, encode: Encode, arch: str, execution: str, request: EncodeRequest, held: tuple[str, str] | None = None
) -> Encoder:
    return Encoder(name, encode, E4M3FN, Policy(), arch, execution, request.dtypes, held_back=held)


def _model(arch: str) -> Encode:
    """The model of an arch's cast, as an encoder of tensors on the CPU."""

    def encode(x: torch.Tensor, out: torch.Tensor) -> None:
        source: Dtype = "fp32" if x.dtype == torch.float32 else "bf16" if x.dtype == torch.bfloat16 else "fp16"
        bits = x.to(torch.float32).numpy() if source != "fp32" else x.numpy()
        out.numpy()[:] = model_codes(arch, bits.view(np.uint32), source)

    return encode


def _target(one: LoadedEncoder, request: EncodeRequest, doubt: str | None) -> Encoder:
    target, triton = one.target, uses_triton(one.module)
    contract = target.contract
    held: tuple[str, str] | None = None
    execution, arch = _execution(request), request.arch
    if not triton:
        execution, arch = ("native", request.own) if request.own else ("host", "")
        if request.own and request.arch != request.own:
            execution, arch = "lowered", request.arch
            held = ("unsupported", f"no Triton kernel, so there is no lowering for {request.arch}")
    elif doubt is not None:
        held = ("inconclusive", f"Triton's interpreter does not stand for {request.arch} here: {doubt}")
    undefined = frozenset(
        name for name, said in (("nan", contract.nan), ("overflow", contract.overflow)) if said == "undefined"
    )
    dtypes = tuple(dtype for dtype in request.dtypes if dtype in contract.dtypes)
    if not dtypes:
        held = ("unsupported", f"takes {', '.join(contract.dtypes)}; {', '.join(request.dtypes)} was asked for")
    return Encoder(
        target.name, target, find_format(contract.format), policy_of(target), arch, execution,
        dtypes or request.dtypes[:1], undefined, held,
    )  # fmt: skip


def _execution(request: EncodeRequest) -> str:
    if not request.own:
        return "interpreted"
    return "native" if request.arch == request.own else "lowered"
