"""The process behind `kvcheck encode`: encoders of one arch, on the GPU or in the interpreter.

Started as `python -m kvcheck.run.encode_worker`, with a request on standard input and the arch in the environment,
because Triton chooses it, and the interpreter, once. The answer goes to what was standard output.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from dataclasses import dataclass

import msgspec
import numpy as np
import torch

from kvcheck.encode.cells import Cells
from kvcheck.encode.facts import Declared, Dtype, EncoderResult, Named
from kvcheck.encode.judge import Judged, judge
from kvcheck.encode.models import is_nan
from kvcheck.encode.steps import steps
from kvcheck.errors import KvcheckError
from kvcheck.formats.digests import BLOCK, BLOCKS, digest, kept
from kvcheck.formats.spec import E4M3FN, Format, Policy, find_format
from kvcheck.lowering.archs import cast_model
from kvcheck.lowering.compile_errors import compile_failure
from kvcheck.lowering.sweep import model_codes
from kvcheck.run.encode_protocol import MODEL, SOFTWARE, TORCH, EncodeAnswer, EncodeRequest
from kvcheck.run.encode_sweep import ALL, HALF, Against, Encode, every, halves, some
from kvcheck.run.environment import environment
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


@dataclass
class Reference:
    """On a GPU: whether kvcheck's software encoder was proved there, on every input, by the oracle's cells."""

    words: str = "the bit oracle"
    encode: Encode | None = None


def main() -> None:
    """Read a request, answer it, and end."""
    answers = os.dup(1)
    os.dup2(2, 1)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=EncodeRequest)
    with os.fdopen(answers, "wb") as pipe:
        pipe.write(msgspec.json.encode(answer(request)))


def answer(request: EncodeRequest) -> EncodeAnswer:
    """Run the encoders of a request. A user's mistake is an error; what an encoder raises is its result."""
    device = torch.device("cuda" if request.own else "cpu")
    # The interpreter's numpy warns of NaN, which is among the inputs on purpose.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="triton")
    try:
        if request.names_only:
            return EncodeAnswer(names=tuple(one.target.name for one in load_encoders(str(request.target))))
        found = encoders(request)
    except KvcheckError as error:
        return EncodeAnswer(error=str(error))
    reference = _prove(request, device)
    results = tuple(_result(one, dtype, request, device, reference) for one in found for dtype in one.dtypes)
    return EncodeAnswer(results, environment(cuda=bool(request.own)))


def encoders(request: EncodeRequest) -> list[Encoder]:
    """What a request names. Raises KvcheckError."""
    doubt = None if request.own else _interpreter_doubt(request)
    if request.target is not None:
        return [_target(one, request, doubt) for one in load_encoders(request.target)]
    return [_built_in(name, request, doubt) for name in request.encoders]


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


def _prove(request: EncodeRequest, device: torch.device) -> Reference:
    """On a GPU, hold the software encoder against the oracle, so that it may stand for it there."""
    if device.type != "cuda" or "fp32" not in request.dtypes:
        return Reference()
    from kvcheck.kernels.sweep import encode_into  # noqa: PLC0415

    try:
        found = judge(every(encode_into, E4M3FN, device), E4M3FN, Policy())
    except Exception as error:  # noqa: BLE001 - then the oracle alone judges
        return Reference(f"the bit oracle; kvcheck's software encoder does not run here: {type(error).__name__}")
    if found.differ:
        return Reference(f"the bit oracle; kvcheck's software encoder is wrong here for {found.differ} inputs")
    words = "kvcheck's software encoder, on this GPU and lowering equal to the bit oracle for all 2^32 inputs"
    return Reference(words, encode_into)


def _result(
    one: Encoder, dtype: Dtype, request: EncodeRequest, device: torch.device, reference: Reference
) -> EncoderResult:
    """Run and judge one encoder on one dtype."""
    began = time.monotonic()
    base = EncoderResult(
        encoder=one.name, arch=one.arch, execution=one.execution, dtype=dtype, outcome="pass",
        device=torch.cuda.get_device_name(0) if device.type == "cuda" and one.execution != "host" else "cpu",
        declared=Declared(
            one.number_format.name, one.policy.rounding,
            "undefined" if "overflow" in one.undefined else one.policy.overflow,
            "undefined" if "nan" in one.undefined else one.policy.nan, one.policy.negative_zero,
        ),
        possible=ALL if dtype == "fp32" else HALF, reference="the bit oracle",
    )  # fmt: skip
    change = msgspec.structs.replace
    if one.held_back is not None:
        return change(base, outcome=one.held_back[0], reason=one.held_back[1])
    place = torch.device("cpu") if one.execution == "host" else device
    watch = _Watch(one, dtype, reference if place.type == "cuda" else Reference())
    try:
        cells = _cells(one, dtype, request, place, watch)
        if place.type == "cuda":
            torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - an encoder's own exception is its result
        return change(base, **_raised(one, error), seconds=time.monotonic() - began)
    whole = dtype != "fp32" or place.type == "cuda" or request.exhaustive
    judged = judge(_defined(cells, one), one.number_format, one.policy, dtype)
    found = change(
        base, **_judged(judged, _defined(cells, one).inputs), coverage="every" if whole else "sample",
        seconds=round(time.monotonic() - began, 3),
    )  # fmt: skip
    return watch.checked(found, judged)


def _cells(one: Encoder, dtype: Dtype, request: EncodeRequest, place: torch.device, watch: _Watch) -> Cells:
    if dtype != "fp32":
        return halves(one.encode, one.number_format, place, dtype)
    if place.type == "cuda" or request.exhaustive:
        return every(one.encode, one.number_format, place, watch=watch if watch.wanted else None)
    return some(one.encode, one.number_format, place)


class _Watch:
    """Looks at every chunk of codes on the device: against the reference, and, for the software encoder, digests."""

    def __init__(self, one: Encoder, dtype: Dtype, reference: Reference) -> None:
        usual = (one.number_format, one.policy, one.undefined) == (E4M3FN, Policy(), frozenset())
        self._software = one.name == SOFTWARE and usual
        self._words = reference.words
        self.wanted = dtype == "fp32" and usual and reference.encode is not None
        self._against = None if reference.encode is None else Against(reference.encode)
        self._same = 0
        self._kept = kept() if self._software else []

    def __call__(self, start: int, codes: torch.Tensor) -> None:
        """One chunk."""
        if not self._software:
            assert self._against is not None
            self._against(start, codes)
            return
        blocks = codes.cpu().numpy().reshape(-1, BLOCK)
        self._same += sum(digest(block) == self._kept[start // BLOCK + index] for index, block in enumerate(blocks))

    def checked(self, result: EncoderResult, judged: Judged) -> EncoderResult:
        """The result, inconclusive where two ways to find it disagree: then something of kvcheck's own is wrong."""
        change = msgspec.structs.replace
        if not self.wanted:
            return result
        if self._software:
            found = change(result, digests=self._same, reference="the kept digests of both oracles, and the bit oracle")
            if self._same == BLOCKS or result.differ:
                return found
            why = f"{BLOCKS - self._same} of {BLOCKS} blocks have another digest, and the bit oracle saw no difference"
            return change(found, outcome="inconclusive", reason=why)
        assert self._against is not None
        direct = self._against.differ()
        if direct == judged.differ:
            return change(result, reference=self._words)
        why = f"{direct} codes differ from the software encoder's and {judged.differ} from the bit oracle's"
        return change(result, outcome="inconclusive", reason=why)


def _defined(cells: Cells, one: Encoder) -> Cells:
    """The inputs that are compared."""
    if not one.undefined:
        return cells
    nan = is_nan(cells.patterns)
    beyond = ~nan & (steps(cells.patterns, one.number_format, one.policy.rounding) > one.number_format.largest)
    left_out = (nan & ("nan" in one.undefined)) | (beyond & ("overflow" in one.undefined))
    return cells.where(~left_out)


def _judged(judged: Judged, inputs: int) -> dict[str, object]:
    return {
        "outcome": "mismatch" if judged.differ else "pass",
        "inputs": inputs,
        "differ": judged.differ,
        "differences": judged.differences,
        "faults": judged.faults,
        "behaves": judged.behaves,
    }


def _raised(one: Encoder, error: Exception) -> dict[str, object]:
    """What an encoder's exception comes to. A lowering that this GPU's assembler does not take is no fault."""
    said = compile_failure(error)
    if said is None:
        return {"outcome": "crash", "reason": "".join(traceback.format_exception(error))[-4000:]}
    if one.execution == "lowered" and _from_assembler(error):
        return {"outcome": "unsupported", "reason": f"this GPU cannot run the lowering for {one.arch}: {said}"}
    return {"outcome": "crash", "reason": said, "faults": (Named("compile-failure", said, 0, 0),)}


def _from_assembler(error: BaseException) -> bool:
    """Whether ptxas raised it: the code was generated, and does not fit this GPU."""
    step: BaseException | None = error
    while step is not None:
        if type(step).__name__ == "PTXASError":
            return True
        step = step.__cause__
    return False


if __name__ == "__main__":
    main()
