"""The plain sentence of each channel."""

from __future__ import annotations

import msgspec
import pytest

from kvcheck.report.channels import failed_channels, findings
from kvcheck.report.firsts import first_code
from kvcheck.report.traces import raised
from kvcheck.schema import (
    CaseResult,
    CodesVerdict,
    DeterminismVerdict,
    FirstByte,
    FirstScale,
    IndependenceVerdict,
    InputsVerdict,
    ProcessVerdict,
    ScalesVerdict,
    WritesVerdict,
)

from .samples import CRASH, FIRST, NAMELESS, PASS, SEGFAULT, TIMEOUT, VIOLATION


def mismatch(**verdicts: object) -> CaseResult:
    """A mismatch with these verdicts and no diagnosis."""
    return msgspec.structs.replace(PASS, outcome="mismatch", **verdicts)


def test_the_original_fault_in_plain_words() -> None:
    """V's wrong codes of V's codes, K's of K's, and the first of them."""
    assert findings(NAMELESS) == (
        "2684 of 3072 V codes wrong, 0 of 3072 K; first: V token 1 head 0 dim 0 slot 4: got 0x7E, want 0x31 "
        "(x = 0.00341796875, scale = 2.18493598e-05)"
    )


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [
        (CodesVerdict(6144, wrong=3, k_wrong=3), "3 of 3072 K codes wrong, 0 of 3072 V"),
        (CodesVerdict(6144, wrong=5, k_wrong=3, v_wrong=2), "3 of 3072 K codes wrong, 2 of 3072 V"),
        (CodesVerdict(5000, wrong=2, v_wrong=2), "2 V codes wrong, 0 K, of 5000 compared"),
        (
            CodesVerdict(5000, wrong=2, v_wrong=2, k_compared=3000, v_compared=2000),
            "2 of 2000 V codes wrong, 0 of 3000 K",
        ),
        (CodesVerdict(6144, wrong=2), "2 of 6144 codes wrong"),
        (CodesVerdict(6144, wrong_any_launch=7), "0 of 6144 codes wrong in launch 1; 7 over all launches"),
        (
            CodesVerdict(6144, wrong=2, v_wrong=2, wrong_any_launch=7),
            "2 of 3072 V codes wrong, 0 of 3072 K; 7 over all launches",
        ),
    ],
)
def test_codes_say_whose_they_are_where_that_is_known(codes: CodesVerdict, wanted: str) -> None:
    """Totals of K and V only where every row was compared; never a total that the verdict does not give."""
    assert findings(mismatch(codes=codes)) == wanted


def test_k_and_v_may_have_unlike_head_dims() -> None:
    """V's total follows V's own head_dim."""
    case = mismatch(axes={"head_dim_v": 64}, codes=CodesVerdict(3072 + 1536, wrong=2, v_wrong=2))
    assert findings(case) == "2 of 1536 V codes wrong, 0 of 3072 K"


def test_the_first_wrong_code_is_as_wide_as_it_needs() -> None:
    """Two digits for a code, four for bf16, eight for fp32; unknown values are left out."""
    place = "V token 1 head 0 dim 0 slot 4"
    bare = msgspec.structs.replace(FIRST, x=None, scale=None)
    assert first_code(bare) == f"{place}: got 0x7E, want 0x31"
    assert first_code(msgspec.structs.replace(bare, got=0x3F80)) == f"{place}: got 0x3F80, want 0x0031"
    assert first_code(msgspec.structs.replace(bare, want=0x3F800000)).endswith("got 0x0000007E, want 0x3F800000")
    assert first_code(msgspec.structs.replace(FIRST, x=None)).endswith("want 0x31 (scale = 2.18493598e-05)")


@pytest.mark.parametrize(
    ("verdicts", "channel", "wanted"),
    [
        ({"scales": ScalesVerdict(48, wrong=1, max_ulp=3)}, "scales", "1 of 48 scales wrong, the worst 3 ulp off"),
        (
            {"scales": ScalesVerdict(48, wrong_any_launch=2)},
            "scales",
            "0 of 48 scales wrong, 2 over all launches",
        ),
        ({"writes": WritesVerdict(lost=1)}, "writes", "1 byte due but never stored"),
        (
            {
                "scales": ScalesVerdict(
                    48, wrong=2, max_ulp=3, v_wrong=2, first=FirstScale("v", 2, 1, None, 4, 0.5, None, 3, launch=2)
                )
            },
            "scales",
            (
                "2 of 48 scales wrong (K 0, V 2), the worst 3 ulp off; first: V token 2 head 1 slot 4: got 0.5, want "
                "not finite, 3 ulp apart, in launch 2"
            ),
        ),
        (
            {
                "writes": WritesVerdict(
                    lost=1, k_lost=1, first_lost=FirstByte("k_scales", 0x12, 0x31, token=3, head=0, slot=7, byte=2)
                )
            },
            "writes",
            (
                "1 byte due but never stored (K 1, V 0); first: K scales token 3 head 0 slot 7 byte 2: got 0x12, 0x31 "
                "was due"
            ),
        ),
        (
            {"writes": WritesVerdict(stray=2, first_stray=FirstByte("v_codes", 1, 2, outside=True, offset=-3))},
            "writes",
            (
                "2 bytes changed outside the addressed rows; first: 3 bytes before V codes, in no tensor: got 0x01, "
                "0x02 stood there"
            ),
        ),
        (
            {"inputs": InputsVerdict(2, ("k",), FirstByte("k", 1, None, outside=True, offset=30, launch=3))},
            "inputs",
            "2 input bytes changed in k; first: 30 bytes after the begin of K, in no tensor: got 0x01, in launch 3",
        ),
        (
            {"independence": IndependenceVerdict(2, "", 2, 0, FirstByte("k_codes", 1, 2, 0, 1, 5, 4, launch=2))},
            "independence",
            (
                "2 stored bytes changed with memory that must not be read (K 2, V 0); first: K codes token 0 head 1 "
                "dim 5 slot 4: got 0x01, 0x02 in launch 1, in launch 2"
            ),
        ),
        (
            {
                "determinism": DeterminismVerdict(
                    4, values_drift=1, v_drift=1, first=FirstByte("v_codes", 1, 2, 0, 1, 5, 4, launch=4)
                )
            },
            "determinism",
            (
                "1 byte changed between equal launches (K 0, V 1) (4 launches); first: V codes token 0 head 1 dim 5 "
                "slot 4: got 0x01, 0x02 in launch 1, in launch 4"
            ),
        ),
        ({"writes": WritesVerdict(stray=2)}, "writes", "2 bytes changed outside the addressed rows"),
        (
            {"writes": WritesVerdict(3, 4)},
            "writes",
            "3 bytes due but never stored; 4 bytes changed outside the addressed rows",
        ),
        (
            {"determinism": DeterminismVerdict(4, positions_drift=2, values_drift=5)},
            "determinism",
            "2 positions wrong in some launches only, 5 bytes changed between equal launches (4 launches)",
        ),
    ],
)
def test_each_other_channel_in_plain_words(verdicts: dict[str, object], channel: str, wanted: str) -> None:
    """The numbers of the verdict, and nothing that it does not say."""
    case = mismatch(**verdicts)
    assert failed_channels(case) == (channel,)
    assert findings(case) == wanted


def test_several_channels_are_all_told() -> None:
    """Channels follow each other in the verdict's order."""
    assert failed_channels(VIOLATION) == ("independence", "determinism", "inputs", "sanitizer")
    assert findings(VIOLATION) == (
        "14 stored bytes changed with memory that must not be read; 3 bytes changed between equal launches "
        "(4 launches); 16 input bytes changed in k, slots; 1 sanitizer record; first: Invalid __global__ read of size "
        "2 bytes at store.py:41"
    )
    unnamed = msgspec.structs.replace(VIOLATION, inputs=msgspec.structs.replace(VIOLATION.inputs, tensors=()))
    assert "16 input bytes changed; " in findings(unnamed)


def test_a_process_that_died_is_told_first() -> None:
    """A crash after wrong codes begins with the crash."""
    died = msgspec.structs.replace(SEGFAULT, codes=CodesVerdict(6144, wrong=1))
    assert findings(died) == "killed by SIGSEGV; 1 of 6144 codes wrong"


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (
            CRASH,
            (
                "exit 1: triton.compiler.errors.CompilationError: at 17:8: type fp8e4nv not supported in this "
                "architecture (got 80)"
            ),
        ),
        (SEGFAULT, "killed by SIGSEGV"),
        (TIMEOUT, "no end after 60 s"),
        (msgspec.structs.replace(TIMEOUT, reason=""), "the process did not end in time"),
        (msgspec.structs.replace(CRASH, process=ProcessVerdict()), "CompilationError"),
        (
            msgspec.structs.replace(CRASH, process=ProcessVerdict(exit=0), reason=""),
            "the process died and said nothing",
        ),
    ],
)
def test_how_a_process_ended(case: CaseResult, wanted: str) -> None:
    """Signal or exit status, then the last that it said, else the reason."""
    assert findings(case) == wanted


def test_a_pass_has_no_findings() -> None:
    """Nothing failed, nothing is said; independence that was not judged is no failure."""
    assert failed_channels(PASS) == ()
    assert findings(PASS) == ""
    assert raised(None) == raised(" \n \n") == ""
