"""What the process behind `kvcheck encode` answers: encoders of one arch, run and judged."""

from __future__ import annotations

import time
import traceback
import warnings

import msgspec
import torch

from kvcheck.encode.cells import Cells
from kvcheck.encode.facts import Declared, Dtype, EncoderResult, Named
from kvcheck.encode.judge import Judged, judge
from kvcheck.encode.models import is_nan
from kvcheck.encode.steps import steps
from kvcheck.errors import KvcheckError
from kvcheck.lowering.compile_errors import compile_failure
from kvcheck.lowering.interpreter_errors import NotModelledError, unjudged
from kvcheck.run.encode_protocol import EncodeAnswer, EncodeRequest
from kvcheck.run.encode_sweep import ALL, HALF, every, halves, some
from kvcheck.run.encode_watch import Reference, Watch, prove
from kvcheck.run.encoders import Encoder, encoders
from kvcheck.run.environment import environment
from kvcheck.run.failure import kept
from kvcheck.targets.encoders import load_encoders


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
    reference = prove(request, device)
    results = tuple(_result(one, dtype, request, device, reference) for one in found for dtype in one.dtypes)
    return EncodeAnswer(results, environment(cuda=bool(request.own)))


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
    watch = Watch(one, dtype, reference if place.type == "cuda" else Reference())
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


def _cells(one: Encoder, dtype: Dtype, request: EncodeRequest, place: torch.device, watch: Watch) -> Cells:
    if dtype != "fp32":
        return halves(one.encode, one.number_format, place, dtype)
    if place.type == "cuda" or request.exhaustive:
        return every(one.encode, one.number_format, place, watch=watch if watch.wanted else None)
    return some(one.encode, one.number_format, place)


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
    if isinstance(unknown := unjudged(error), NotModelledError):
        return {"outcome": "inconclusive", "reason": kept(str(unknown), 4000)}
    said = compile_failure(error)
    if said is None:
        return {"outcome": "crash", "reason": kept("".join(traceback.format_exception(error))[-4000:], 4000)}
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
