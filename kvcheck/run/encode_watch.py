"""A second opinion on the GPU: kvcheck's software encoder, proved there first, and the digests of both oracles."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import torch

from kvcheck.encode.facts import Dtype, EncoderResult
from kvcheck.encode.judge import Judged, judge
from kvcheck.formats.digests import BLOCK, BLOCKS, digest, kept
from kvcheck.formats.spec import E4M3FN, Policy
from kvcheck.run.encode_protocol import SOFTWARE, EncodeRequest
from kvcheck.run.encode_sweep import Against, Encode, every
from kvcheck.run.encoders import Encoder


@dataclass
class Reference:
    """On a GPU: whether kvcheck's software encoder was proved there, on every input, by the oracle's cells."""

    words: str = "the bit oracle"
    encode: Encode | None = None


def prove(request: EncodeRequest, device: torch.device) -> Reference:
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


class Watch:
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
