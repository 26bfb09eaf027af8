"""The process that runs encoders, and the one that starts it: what is asked for, what disagrees, what is lost."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvcheck.encode.facts import Declared, EncoderResult
from kvcheck.encode.judge import Judged
from kvcheck.errors import SelectionError
from kvcheck.formats import bits
from kvcheck.formats.digests import BLOCK, BLOCKS
from kvcheck.formats.spec import E4M3FN, Policy
from kvcheck.lowering.interpreter_errors import NotModelledError
from kvcheck.run import encode_watch
from kvcheck.run.encode_answer import _raised
from kvcheck.run.encode_command import EncodeOptions, _environment, plan
from kvcheck.run.encode_protocol import ENCODERS, EncodeRequest
from kvcheck.run.encode_watch import Reference, Watch
from kvcheck.run.encoders import Encoder

DECLARED = Declared("e4m3fn", "rne", "saturate", "canonical", "keep")
PASSED = EncoderResult(
    encoder="e", arch="sm_90", execution="native", device="gpu", dtype="fp32", declared=DECLARED, outcome="pass"
)


def oracle(values: torch.Tensor, codes: torch.Tensor) -> None:
    """The right codes."""
    codes.numpy()[:] = bits.encode(values.numpy())


def encoder(name: str, execution: str = "native") -> Encoder:
    """An encoder of e4m3fn with the usual policy."""
    return Encoder(name, oracle, E4M3FN, Policy(), "sm_90", execution, ("fp32",))


def judged(differ: int) -> Judged:
    """What the cells said."""
    return Judged(differ, (), (), "", None)  # type: ignore[arg-type]


def codes_of(block: int) -> torch.Tensor:
    """The right codes of one block of patterns."""
    patterns = np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.int64).astype(np.uint32)
    return torch.from_numpy(bits.encode(patterns))


def test_two_ways_to_count_must_agree() -> None:
    """An encoder is held against the software encoder and the oracle; where they disagree nothing is said of it."""
    watch = Watch(encoder("mine"), "fp32", Reference("words", oracle))
    assert watch.wanted
    codes = codes_of(0x3C)
    codes[5] = 0x7F
    watch(0x3C000000, codes)
    agreed = watch.checked(PASSED, judged(1))
    assert (agreed.outcome, agreed.reference) == ("pass", "words")
    doubted = watch.checked(PASSED, judged(0))
    assert doubted.outcome == "inconclusive"
    assert "1 codes differ from the software encoder's and 0 from the bit oracle's" in doubted.reason


def test_the_software_encoder_must_have_the_kept_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block that has another digest where the oracle saw no difference: inconclusive."""
    monkeypatch.setattr(encode_watch, "BLOCKS", 2)
    watch = Watch(encoder("software"), "fp32", Reference("words", oracle))
    for block in (0x3C, 0xC3):
        watch(block * BLOCK, codes_of(block))
    found = watch.checked(PASSED, judged(0))
    assert (found.outcome, found.digests) == ("pass", 2)
    other = Watch(encoder("software"), "fp32", Reference("words", oracle))
    other(0x3C * BLOCK, codes_of(0x3C))
    other(0xC3 * BLOCK, codes_of(0xC4))
    found = other.checked(PASSED, judged(0))
    assert (found.outcome, found.digests) == ("inconclusive", 1)
    assert BLOCKS == 256


def test_other_formats_and_dtypes_have_no_software_encoder() -> None:
    """The oracle alone judges them."""
    assert not Watch(encoder("mine"), "bf16", Reference("words", oracle)).wanted
    assert not Watch(encoder("mine"), "fp32", Reference()).wanted
    policy = Policy(overflow="nan")
    other = Encoder("mine", oracle, E4M3FN, policy, "sm_90", "native", ("fp32",))
    assert not Watch(other, "fp32", Reference("words", oracle)).wanted


class PTXASError(Exception):
    """As Triton's is called, and found by its name."""


PTXASError.__module__ = "triton.runtime.errors"


def test_what_the_assembler_refuses_is_unsupported_where_lowered() -> None:
    """The code was generated; this GPU is another. Natively, or from the compiler itself, it is a failure."""
    error = PTXASError("Feature 'cvt' requires .target sm_100")
    assert _raised(encoder("e", "lowered"), error)["outcome"] == "unsupported"
    native = _raised(encoder("e"), error)
    assert native["outcome"] == "crash"
    assert native["faults"][0].fault == "compile-failure"  # type: ignore[index]


def test_what_triton_s_interpreter_has_not_is_inconclusive() -> None:
    """The encoder may be right."""
    error = RuntimeError("wrapped")
    error.__cause__ = NotModelledError("no model of __nv_exp2f")
    assert _raised(encoder("e", "interpreted"), error) == {
        "outcome": "inconclusive", "reason": "no model of __nv_exp2f",
    }  # fmt: skip


def requests(own: str = "", **changes: object) -> list[EncodeRequest]:
    """The plan of some options."""
    return plan(EncodeOptions(**changes), own)  # type: ignore[arg-type]


def test_without_a_gpu_every_model_is_run() -> None:
    """Four archs; what does not depend on them is run once."""
    found = requests()
    assert [each.arch for each in found] == ["sm_89", "sm_90", "sm_100", "sm_120"]
    assert set(found[0].encoders) == set(ENCODERS)
    assert all(each.encoders == ("triton-cast", "model") for each in found[1:])


def test_a_gpus_own_arch_comes_first() -> None:
    """Then the lowerings; torch's cast has none."""
    found = requests("sm_90")
    assert [each.arch for each in found] == ["sm_90", "sm_89", "sm_100", "sm_120"]
    assert found[0].encoders == ("triton-cast", "software", "torch-cast")
    assert all(each.encoders == ("triton-cast", "software") for each in found[1:])


def test_targets_run_alone() -> None:
    """A process each, for every arch asked for; the built-in encoders only where they are named."""
    found = requests(targets=("a.py", "b.py::x"), archs=("sm_89", "sm_90"))
    assert [(each.target, each.arch) for each in found] == [
        ("a.py", "sm_89"), ("b.py::x", "sm_89"), ("a.py", "sm_90"), ("b.py::x", "sm_90"),
    ]  # fmt: skip
    assert all(each.encoders == () for each in found)
    assert len(requests(targets=("a.py",))) == 1
    assert [each.encoders for each in requests(targets=("a.py",), encoders=("software",))] == [("software",), ()]


def test_unknown_archs_are_refused() -> None:
    """Before anything starts; AMD's cannot be run on NVIDIA's GPUs."""
    with pytest.raises(SelectionError, match="sm_87"):
        requests(archs=("sm_87",))
    with pytest.raises(SelectionError, match="gfx942"):
        requests("sm_90", archs=("gfx942",))


def test_the_arch_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton reads it once: native without a word, lowered by override, interpreted without a GPU."""
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "sm75")
    for own, arch, override, interpret in (
        ("sm_90", "sm_90", None, None),
        ("sm_90", "sm_89", "sm89", None),
        ("", "sm_89", None, "1"),
    ):
        found = _environment(requests(own, archs=(arch,))[0])
        assert (found.get("TRITON_OVERRIDE_ARCH"), found.get("TRITON_INTERPRET")) == (override, interpret)
