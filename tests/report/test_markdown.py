"""The Markdown report, to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.report import sentences
from kvcheck.report.markdown import TRACEBACK_LINES, block, code, markdown, text
from kvcheck.schema import CompileFact, ProcessVerdict

from .samples import CRASH, EVERY, PASS, SEED, TARGET, UNSUPPORTED, VIOLATION, report

HERE = Path(__file__).parent


def before_environment(made: str) -> str:
    """A report's text up to its environment."""
    return made.partition("<details><summary>Environment")[0]


def test_a_green_run_is_short() -> None:
    """One headline, independence, what a pass could have seen, and the environment folded."""
    both = report(PASS, msgspec.structs.replace(PASS, id="2"))
    made = markdown(both)
    assert before_environment(made) == (
        "### kvcheck: `specimen:shared-pitch`, all 2 cases passed, 2 compared\n\n"
        "2 of 2 planned cases, natively on NVIDIA H200 (sm_90), torch 2.11.0, triton 3.6.0.\n\n"
        "#### What a pass could have seen\n\n"
        "- Independence judged in 2 of 2 compared cases.\n"
        "- 2 passing cases share their inputs with another, in other views or layouts: all left the same bytes.\n"
        f"- {text(sentences.unexercised(both)[0])}\n"
        "- No case rules out 2 of 4 faults: index-wrap, graph-stale.\n\n"
        "<details><summary>Cases in which each fault was observable</summary>\n\n"
        "| fault | cases |\n| --- | --: |\n| `sibling-pitch` | 2 |\n| `dense-heads` | 2 |\n\n"
        "</details>\n\n"
    )


def test_the_original_fault_to_the_letter() -> None:
    """Headline, outcomes, the group with its rows and its command."""
    made = markdown(report(PASS, SEED, UNSUPPORTED))
    assert before_environment(made).partition("#### What a pass")[0] == (
        "### kvcheck: `specimen:shared-pitch`, 1 of 3 cases failed, 2 compared\n\n"
        "3 of 3 planned cases, natively on NVIDIA H200 (sm_90), torch 2.11.0, triton 3.6.0.\n\n"
        "| outcome | cases |  |\n| --- | --: | --- |\n"
        "| mismatch | 1 | codes, scales or writes are wrong |\n"
        "| unsupported | 1 | outside what the target declares, or cannot run here |\n"
        "| pass | 1 | every byte compared is right |\n\n"
        "#### mismatch, sibling-pitch in V, 1 case\n\n"
        "V is read with K's pitch: 1152 elements from row to row instead of 384.\n\n"
        "- **found**: 2684 of 3072 V codes wrong, 0 of 3072 K; first: V token 1 head 0 dim 0 slot 4: got 0x7E, want "
        "0x31 (x = 0.00341796875, scale = 2.18493598e-05)\n"
        "- **or**: dense-heads in V explains 764 of 2684\n"
        "- **tolerance**: a usual tolerance test (max abs 0.08) would have passed V: K 0.58, V 0.042\n"
        "- **case**: `3fa9c1: k_view=qkv k_values=columns*5 v_values=columns*0.01`\n\n"
        "```sh\nkvcheck matrix --target specimen:shared-pitch --arch sm_90 --select 3fa9c1 --out repeat\n```\n\n"
        "<details><summary>More of this group</summary>\n\n"
        "- **explains**: 2684 of 2684 wrong bytes (pitch = 1152, declared = 384)\n\n"
        "</details>\n\n"
        "#### Other outcomes\n\n"
        "- unsupported, 1 case (e.g. `5e7a11`): accepts inner=1; K has an inner stride of 2\n\n"
    )


def test_the_environment_is_folded_with_the_command() -> None:
    """Every key is shown, what is not known as none, the command behind it."""
    made = markdown(report(PASS)).partition("<details><summary>Environment</summary>")[2]
    assert made.startswith("\n\n|  |  |\n| --- | --- |\n| `target` | `specimen:shared-pitch` |\n")
    for line in ("| `gpu` | `NVIDIA H200` |", "| `sanitizer` | `none` |", "| `fp_fusion` | `True` |"):
        assert line in made
    assert made.endswith(
        "```sh\nkvcheck matrix --target specimen:shared-pitch --arch sm_90 --out reports\n```\n\n</details>\n"
    )


def test_what_a_process_printed_is_folded_and_cut() -> None:
    """The beginning and the end stay, the gap is counted."""
    error = "\n".join([f"line {n}" for n in range(200)] + ["ValueError: ``` | no"])
    made = markdown(report(msgspec.structs.replace(CRASH, process=ProcessVerdict(exit=1, error=error))))
    folded = made.partition("What the process said (`c0ffee`):\n\n")[2].partition("\n\n</details>")[0]
    lines = folded.split("\n")
    assert lines[0] == "````text"
    assert lines[-2:] == ["ValueError: ``` | no", "````"]
    assert len(lines) == TRACEBACK_LINES + 2
    assert f"... {201 - TRACEBACK_LINES + 1} lines left out ..." in lines


def test_sanitizer_records_are_folded() -> None:
    """Each record is a line."""
    made = markdown(report(VIOLATION))
    assert "<details><summary>More of this group</summary>" in made
    assert "Sanitizer records:\n\n```text\nInvalid __global__ read of size 2 bytes at store.py:41\n```" in made


def test_counts_by_axis_value_are_a_table_of_judged_cases() -> None:
    """Cases of the group out of those judged; a case that the target does not take is none of them."""
    tokens = [msgspec.structs.replace(SEED, id=str(n), axes={"tokens": n}) for n in (2, 3)]
    outside = msgspec.structs.replace(UNSUPPORTED, axes={"tokens": 3})
    made = markdown(report(msgspec.structs.replace(PASS, axes={"tokens": 2}), *tokens, outside))
    assert (
        "| axis | cases of this group / cases judged, by value |\n| --- | --- |\n| `tokens` | `3: 1/1, 2: 1/2` |"
        in made
    )


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("k_view is fine", "k_view is fine"),
        ("_a_ __b__ c_", "\\_a\\_ \\_\\_b\\_\\_ c\\_"),
        ("a|b `c` *d* [e](f) ~g~ $h$ \\", "a\\|b \\`c\\` \\*d\\* \\[e\\](f) \\~g\\~ \\$h\\$ \\\\"),
        ("<img> & co", "&lt;img&gt; &amp; co"),
        ("@someone", "@<!-- -->someone"),
        ("# a", "\\# a"),
        ("- a", "\\- a"),
        ("12. a", "12\\. a"),
        ("2684 of", "2684 of"),
        ("a\nb\x1b[0m", "a b\N{REPLACEMENT CHARACTER}\\[0m"),
    ],
)
def test_prose_is_never_markup(words: str, wanted: str) -> None:
    """Nothing in a string from elsewhere becomes markup, a mention, or a list."""
    assert text(words) == wanted


@pytest.mark.parametrize(
    ("words", "plain", "in_table"),
    [
        ("a", "`a`", "`a`"),
        ("a|b", "`a|b`", "`a\\|b`"),
        ("a`b", "``a`b``", "``a`b``"),
        ("a`", "`` a` ``", "`` a` ``"),
        ("`a``", "``` `a`` ```", "``` `a`` ```"),
        ("", "", ""),
        (" \n ", "", ""),
    ],
)
def test_inline_code_cannot_be_closed(words: str, plain: str, in_table: str) -> None:
    """The fence is longer than any run of backticks inside; pipes are escaped in a table alone."""
    assert code(words) == plain
    assert code(words, in_table=True) == in_table


@given(st.text(alphabet="`~a\n ", max_size=30))
def test_a_block_cannot_be_closed(words: str) -> None:
    """No line inside a block is a fence as long as its own."""
    lines = block(words).split("\n")
    assert lines[0] == lines[-1]
    assert not any(line.strip().startswith(lines[0]) for line in lines[1:-1])


HOSTILE = "x|y`z` <script>@you\n\n# </details> **b**"


def test_hostile_strings_stay_strings() -> None:
    """A target, fault, reason, exception and axis chosen to break the page leave its structure as it is."""
    bad = msgspec.structs.replace(
        SEED,
        axes={"k_view": HOSTILE},
        diagnosis=(
            msgspec.structs.replace(SEED.diagnosis[0], fault=HOSTILE, says=HOSTILE, evidence={HOSTILE: HOSTILE}),
        ),
    )
    crash = msgspec.structs.replace(
        CRASH, process=ProcessVerdict(exit=1, signal=HOSTILE, error=f"{HOSTILE}\n{HOSTILE}")
    )
    made = markdown(
        report(
            bad,
            crash,
            msgspec.structs.replace(UNSUPPORTED, reason=HOSTILE),
            target=msgspec.structs.replace(TARGET, name=HOSTILE),
            environment={"gpu": HOSTILE, HOSTILE: HOSTILE},
            faults=(HOSTILE, "b", "c", "d"),
        )
    )
    prose = re.sub(r"^(`{3,}).*?^\1$", "", made, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", prose)
    assert "<script>" not in prose
    assert "@you" not in prose
    assert "**b**" not in prose
    assert made.count("\n</details>") == prose.count("<details>") == 4
    for line in made.split("\n"):
        if line.startswith("| ") and "x" in line:
            assert len(re.findall(r"(?<!\\)\|", line)) == 3


def test_a_report_of_any_size_fits_in_a_comment() -> None:
    """Dozens of groups and reasons, all of them long, stay below GitHub's 65 536 characters, and it is said."""
    process = ProcessVerdict(exit=1, error="\n".join(["y" * 200] * 500))
    long = msgspec.structs.replace(SEED.diagnosis[0], says="s" * 5000)
    groups = [
        msgspec.structs.replace(
            CRASH,
            id=f"c{n}",
            process=process,
            sanitizer=("z" * 300,) * 99,
            diagnosis=(msgspec.structs.replace(long, fault=f"f{n}"),),
        )
        for n in range(64)
    ]
    others = [msgspec.structs.replace(UNSUPPORTED, id=f"u{n}", reason="r" * 500 + str(n)) for n in range(200)]
    made = markdown(report(*groups[:64], *others))
    assert len(made) < 65536
    full = made.count("#### crash, ")
    assert full >= 1
    assert made.count("\n- crash, ") == 20
    assert f"- {64 - full - 20} more groups: see `report.json`" in made
    assert "- 180 more reasons: see `report.json`" in made
    short = [msgspec.structs.replace(each, process=ProcessVerdict(), sanitizer=()) for each in groups[:9]]
    assert markdown(report(*short)).count("#### crash, ") == 8


def test_every_outcome_is_named() -> None:
    """No case of any outcome is missing from the page."""
    made = markdown(report(*EVERY))
    for case in EVERY:
        assert f"| {case.outcome} |" in made
        if case.outcome != "pass":
            assert case.id in made


def test_strict_is_said() -> None:
    """A run that --strict fails says so in its headline."""
    legal = msgspec.structs.replace(PASS, codes=msgspec.structs.replace(PASS.codes, legal=2))
    assert "all" not in markdown(report(legal), strict=True).split("\n")[0]
    assert markdown(report(legal)).startswith("### kvcheck: `specimen:shared-pitch`, 1 case passed, 1 compared")


def test_a_kernel_that_does_not_compile_comes_first() -> None:
    """Before the groups, with what the compiler said folded; nothing of it where all compile."""
    failed = CompileFact("sm_75", "store", "failed", "no <fp8>", "line one\nline two")
    made = markdown(report(PASS, SEED, compiled=(failed,)))
    assert made.index("#### A kernel does not compile") < made.index("#### mismatch")
    assert "- compile-failure: store does not compile for sm_75: no &lt;fp8&gt;" in made
    assert "<summary>What the compiler said</summary>\n\n```text\nline one\nline two\n```" in made
    right = CompileFact("sm_75", "store", "compiled", casts={"cvt": 2})
    good = markdown(report(PASS, compiled=(right,)))
    assert "does not compile" not in good
    assert "- Compiled for sm_75: store; casts by cvt, divides by nothing." in good
