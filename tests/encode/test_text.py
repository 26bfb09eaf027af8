"""Results in words: never more than was run."""

from __future__ import annotations

import msgspec

from kvcheck.encode.exit_code import exit_code
from kvcheck.encode.facts import Declared, Difference, EncodeReport, EncoderResult, Example, Named
from kvcheck.encode.text import lines, markdown

DECLARED = Declared("e4m3fn", "rne", "saturate", "canonical", "keep")
PASSED = EncoderResult(
    encoder="mine", arch="sm_90", execution="native", device="gpu", dtype="fp32", declared=DECLARED, outcome="pass",
    coverage="every", inputs=1 << 32, possible=1 << 32, reference="the bit oracle",
)  # fmt: skip
change = msgspec.structs.replace
WRONG = change(
    PASSED, outcome="mismatch", coverage="sample", inputs=1234567, differ=3, arch="sm_89", execution="lowered",
    differences=(Difference("negative_zero", 3, (Example("-0.0", 0x80000000, 0, 0x80),)),),
    faults=(Named("negative-zero", "-0 loses its sign", 2, 3), Named(None, "follows no rule", 1, 3)),
    behaves="rounds to nearest",
)  # fmt: skip


def test_a_pass_is_one_line() -> None:
    """With how much was compared."""
    assert lines(PASSED) == ["mine fp32, sm_90 native: 0 codes differ of all 4 294 967 296 inputs"]


def test_a_sample_is_called_one() -> None:
    """And differences have their kind, example, fault and count."""
    assert lines(WRONG) == [
        "mine fp32, sm_89 lowered: 3 codes differ of 1 234 567 inputs, a sample of 4 294 967 296",
        "    negative-zero: -0 loses its sign; explains 2 of 3",
        "    no named fault: follows no rule; explains 1 of 3",
        "    -0                     3  -0.0 (0x80000000): got 0x00 (0), want 0x80 (-0)",
        "    as found: rounds to nearest",
    ]


def test_inputs_left_out_are_said() -> None:
    """All that are defined is not all."""
    (line,) = lines(change(PASSED, inputs=(1 << 32) - 10))
    assert "0 codes differ of all 4 294 967 286 inputs that are defined, of 4 294 967 296" in line


def test_what_did_not_run_says_why() -> None:
    """The last line in the verdict, and the traceback under it."""
    crash = change(PASSED, outcome="crash", coverage="none", inputs=0, reason="Traceback\n  File x\nValueError: no")
    assert lines(crash) == [
        "mine fp32, sm_90 native: crash: ValueError: no",
        "    Traceback",
        "      File x",
        "    ValueError: no",
    ]
    doubt = change(PASSED, outcome="inconclusive", reason="two ways disagree")
    assert lines(doubt)[0].endswith("inconclusive: two ways disagree; 0 codes differ of all 4 294 967 296 inputs")


def test_markdown_has_every_result() -> None:
    """A row each; details where codes differ."""
    facts: dict[str, str | int | float | bool | None] = {"gpu": "H200", "triton": "3.6.0", "torch": None}
    text = markdown(
        EncodeReport(kvcheck="0", created="now", command="kvcheck encode", environment=facts, results=(PASSED, WRONG))
    )
    assert "GPU H200, triton 3.6.0." in text
    assert "| mine | fp32 | sm_90 | native | e4m3fn | 4 294 967 296 | 0 |  |" in text
    assert "| mine | fp32 | sm_89 | lowered | e4m3fn | 1 234 567 (sample) | 3 | negative-zero, ? |" in text
    assert "## mine fp32, sm_89 lowered" in text
    assert "## mine fp32, sm_90 native" not in text
    assert "Compared with the bit oracle." in text
    assert "`--exhaustive` runs every one" in text


def test_exit_codes() -> None:
    """A difference or a crash first, then doubt, then nothing compared."""
    unsupported = change(PASSED, outcome="unsupported", inputs=0, coverage="none")
    doubt = change(PASSED, outcome="inconclusive")
    assert exit_code([PASSED, unsupported]) == 0
    assert exit_code([PASSED, doubt, WRONG]) == 1
    assert exit_code([change(PASSED, outcome="timeout"), doubt]) == 1
    assert exit_code([PASSED, doubt]) == 3
    assert exit_code([unsupported]) == 4
    assert exit_code([]) == 4
