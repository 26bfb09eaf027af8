"""What the terminal shows."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from kvcheck.errors import ReportError
from kvcheck.report import sentences
from kvcheck.report.progress import make_console
from kvcheck.report.terminal import Progress, show, show_error
from kvcheck.report.write import Written
from kvcheck.schema import CaseResult, CompileFact, ProcessVerdict, Report

from .samples import CRASH, EVERY, INCONCLUSIVE, PASS, REFUSED, SEED, TARGET, UNSUPPORTED, report


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on how pytest was started."""
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def console(width: int = 80, *, terminal: bool = False) -> tuple[Console, io.StringIO]:
    """A console of that width, and the file it writes to."""
    file = io.StringIO()
    made = Console(file=file, width=width, force_terminal=terminal, highlight=False, markup=False, emoji=False)
    return made, file


def shown(made: Report, width: int = 80, **options: object) -> str:
    """What `show` prints of one report."""
    out, file = console(width)
    show([made], console=out, **options)  # type: ignore[arg-type]
    return file.getvalue()


SEED_TEXT = """
specimen:shared-pitch  1 of 3 cases failed, 2 compared
3 of 3 planned cases, natively on NVIDIA H200 (sm_90), torch 2.11.0, triton
3.6.0.

  mismatch      1  codes, scales or writes are wrong
  unsupported   1  outside what the target declares, or cannot run here
  pass          1  every byte compared is right

mismatch, sibling-pitch in V, 1 case
  V is read with K's pitch: 1152 elements from row to row instead of 384.
  found      2684 of 3072 V codes wrong, 0 of 3072 K; first: V token 1 head 0
             dim 0 slot 4: got 0x7E, want 0x31 (x = 0.00341796875, scale =
             2.18493598e-05)
  explains   2684 of 2684 wrong bytes (pitch = 1152, declared = 384)
  or         dense-heads in V explains 764 of 2684
  tolerance  a usual tolerance test (max abs 0.08) would have passed V: K 0.58,
             V 0.042
  case       3fa9c1: k_view=qkv k_values=columns*5 v_values=columns*0.01
  repeat     kvcheck matrix --target specimen:shared-pitch --arch sm_90 --select 3fa9c1 --out repeat

  unsupported   1  accepts inner=1; K has an inner stride of 2 (e.g. 5e7a11)

Independence judged in 2 of 2 compared cases.
{unexercised}
No case rules out 2 of 4 faults: index-wrap, graph-stale.

  report     out/report.md
             out/report.json
  exit 1     a case is a mismatch, violation, crash, timeout or unexpected pass,
             or a kernel does not compile
"""


def test_the_original_fault_to_the_letter() -> None:
    """The whole summary at 80 columns: only what is to be copied is longer than the terminal."""
    files = Written(Path("out/report.json"), Path("out/report.md"))
    made = shown(report(PASS, SEED, UNSUPPORTED), written=[files], code=1)
    unexercised = "\n".join(textwrap.fill(line, 80) for line in sentences.unexercised(report(PASS, SEED, UNSUPPORTED)))
    assert made == SEED_TEXT.format(unexercised=unexercised)
    assert [line for line in made.split("\n") if len(line) > 80] == [
        "  repeat     kvcheck matrix --target specimen:shared-pitch --arch sm_90 --select 3fa9c1 --out repeat"
    ]


def test_a_green_run_is_four_sentences() -> None:
    """No table where every case passed."""
    assert shown(report(PASS), width=120) == (
        "\nspecimen:shared-pitch  1 case passed, 1 compared\n"
        "1 of 1 planned case, natively on NVIDIA H200 (sm_90), torch 2.11.0, triton 3.6.0.\n\n"
        "Independence judged in 1 of 1 compared case.\n"
        f"{textwrap.fill(sentences.unexercised(report(PASS))[0], 120)}\n"
        "No case rules out 2 of 4 faults: index-wrap, graph-stale.\n"
    )


def test_a_traceback_is_shown_by_its_end() -> None:
    """The reader's own frames and the exception beside their label; one line alone is not told twice."""
    made = shown(report(CRASH))
    assert "  said       store.py:41, in store\n                 kernel[grid](k, v, slots" in made
    short = msgspec.structs.replace(CRASH, process=ProcessVerdict(exit=1, error="KeyError: 3\n"))
    assert "  said " not in shown(report(short))
    assert "  exit 1: KeyError: 3\n" in shown(report(short))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_everything_is_shown_without_a_control_character(width: int) -> None:
    """Every outcome, hostile strings included, in plain text; nothing but copied lines is wider than the terminal."""
    bad = "\x1b[31mred\x1b[0m [bold]x[/bold] :smile:"
    hostile = msgspec.structs.replace(
        CRASH, id="bad", process=ProcessVerdict(exit=1, error=f"{bad}\n{bad}"), axes={"k_view": bad}
    )
    made = shown(
        report(*EVERY, hostile, target=msgspec.structs.replace(TARGET, name=bad), command=f"kvcheck matrix '{bad}'"),
        width=width,
    )
    assert all(character == "\n" or character.isprintable() for character in made)
    assert "[bold]x[/bold] :smile:" in made
    for case in EVERY:
        assert f"  {case.outcome} " in made
    wide = [line for line in made.split("\n") if len(line) > width and not line.lstrip().startswith("repeat")]
    assert all(len(line) <= 160 for line in wide)
    if width >= 80:
        assert [line for line in wide if not line.startswith(("crash", "\ufffd"))] == []


def test_more_groups_and_reasons_than_fit_are_counted() -> None:
    """Ten of each are shown; the files hold the others."""
    crashes = [
        msgspec.structs.replace(CRASH, id=f"c{n}", process=ProcessVerdict(error="E" * (n + 1))) for n in range(12)
    ]
    others = [msgspec.structs.replace(UNSUPPORTED, id=f"u{n}", reason="r" * (n + 1)) for n in range(13)]
    made = shown(report(*crashes, *others))
    assert "\n2 more groups of failures: see report.md\n" in made
    assert "\n  3 more reasons: see report.md\n" in made


@pytest.mark.parametrize(
    ("cases", "colour"),
    [((PASS,), "32"), ((SEED,), "31"), ((INCONCLUSIVE,), "33"), ((UNSUPPORTED,), "33"), ((PASS, REFUSED), "32")],
)
def test_the_result_is_coloured_by_what_the_run_exits_with(cases: tuple[CaseResult, ...], colour: str) -> None:
    """Green for 0, red for 1, yellow for what is neither."""
    out, file = console(terminal=True)
    show([report(*cases)], console=out)
    assert f"\x1b[1;{colour}m" in file.getvalue().split("\n")[1]


def test_no_color_takes_the_colours_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR a terminal gets no colour code."""
    monkeypatch.setenv("NO_COLOR", "1")
    out, file = console(terminal=True)
    show([report(*EVERY)], console=out)
    assert "31m" not in file.getvalue()
    assert "32m" not in file.getvalue()


def test_an_error_of_the_users_is_one_line() -> None:
    """No stack trace, no markup, no line feed."""
    out, file = console(40)
    show_error(ReportError("[red]x[/red]: cannot be read\nat all, not even with patience"), out)
    assert file.getvalue() == "kvcheck: [red]x[/red]: cannot be read at all, not even with patience\n"


def test_in_a_log_only_failures_take_a_line() -> None:
    """Title first, then each case that failed or could not be judged; passes, refusals and unsupported are silent."""
    out, file = console()
    with Progress(len(EVERY), "specimen:shared-pitch\x1b", out) as bar:
        for case in EVERY:
            bar.advance(case)
    lines = file.getvalue().split("\n")
    assert lines[0] == "specimen:shared-pitch\N{REPLACEMENT CHARACTER}: 12 cases"
    assert [line.split()[:2] for line in lines[1:-1]] == [
        ["mismatch", "3fa9c1"],
        ["crash", "c0ffee"],
        ["crash", "dead01"],
        ["timeout", "71ae00"],
        ["violation", "0b5e55"],
        ["inconclusive", "1dea00"],
        ["xpass", "9a5500"],
    ]
    assert lines[1] == (
        "mismatch      3fa9c1  k_view=qkv k_values=columns*5 v_values=columns*0.01  "
        "V is read with K's pitch: 1152 elements from row to row instead of 384."
    )
    assert "\x1b" not in file.getvalue()


def test_on_a_terminal_a_bar_counts_and_the_last_failure_are_drawn() -> None:
    """Three lines, drawn over each other and removed at the end."""
    out, file = console(terminal=True)
    with Progress(150, "store", out) as bar:
        for case in (PASS, SEED, REFUSED, PASS):
            bar.advance(case)
        bar._began -= 75
        plain, text = console()
        plain.print(bar._picture())
    assert "\x1b[2K" in file.getvalue()
    lines = text.getvalue().split("\n")
    assert lines[0].split() == ["store", lines[0].split()[1], "4/150", "1:15"]
    assert lines[1].rstrip() == "mismatch 1  refused 1  pass 2"
    assert lines[2] == "mismatch      3fa9c1  k_view=qkv k_values=columns*5 v_values=columns*0.01  V is\u2026"
    assert len(lines) == 4


def test_a_bar_without_a_case_or_with_too_many_is_drawn() -> None:
    """A total of zero, and more results than were announced, break nothing."""
    out, file = console()
    bar = Progress(0, "store", out)
    out.print(bar._picture())
    bar.advance(PASS)
    out.print(bar._picture())
    assert "0/0" in file.getvalue()
    assert "1/0" in file.getvalue()


def test_an_exception_stops_the_bar_and_goes_on() -> None:
    """Ctrl-C leaves the terminal as it was, with its cursor."""
    out, file = console(terminal=True)
    bar = Progress(3, "store", out)
    with pytest.raises(KeyboardInterrupt), bar:
        raise KeyboardInterrupt
    assert file.getvalue().rstrip("\n").endswith("\x1b[?25h") or "\x1b[?25h" in file.getvalue()
    assert bar._live is None


def test_output_that_the_terminal_cannot_encode_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ASCII terminal gets a question mark instead of a traceback; a stream of another kind is left alone."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    make_console().print("caf\N{LATIN SMALL LETTER E WITH ACUTE}")
    stream.flush()
    assert raw.getvalue() == b"caf?\n"
    other = io.StringIO()
    monkeypatch.setattr(sys, "stdout", other)
    make_console().print("x")
    assert other.getvalue() == "x\n"


def test_rich_pandas_and_torch_are_not_imported_before_they_are_needed() -> None:
    """`kvcheck --help` pays for none of them."""
    script = (
        "import sys, kvcheck.report.terminal, kvcheck.report.write, kvcheck.report.read;"
        "print(*{'rich', 'pandas', 'numpy', 'torch', 'triton'} & sys.modules.keys())"
    )
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == ""


def test_a_log_tells_a_few_failing_cases_of_each_kind_and_counts_the_others() -> None:
    """Three lines for cases alike, twelve in all; the end says how many more there are, and where they stand."""
    out, file = console(200)
    with Progress(40, "t", out) as bar:
        for n in range(20):
            bar.advance(msgspec.structs.replace(SEED, id=f"s{n}"))
        for n in range(2):
            bar.advance(msgspec.structs.replace(CRASH, id=f"c{n}"))
        for n in range(20):
            fault = msgspec.structs.replace(SEED.diagnosis[0], fault=f"fault-{n}")
            bar.advance(msgspec.structs.replace(SEED, id=f"f{n}", diagnosis=(fault,)))
    lines = file.getvalue().splitlines()
    assert [line.split()[1] for line in lines[1:-1]] == ["s0", "s1", "s2", "c0", "c1", *(f"f{n}" for n in range(7))]
    assert lines[-1] == "30 more cases like these: grouped below, each by itself in report.json"


def test_a_kernel_that_does_not_compile_comes_before_the_groups() -> None:
    """In one line, whatever the cases did."""
    failed = CompileFact("sm_75", "store", "failed", "no fp8")
    made = shown(report(PASS, SEED, compiled=(failed,)))
    line = "\ncompile-failure: store does not compile for sm_75: no fp8\n"
    assert made.index(line) < made.index("\nmismatch, sibling-pitch")


def test_many_reports_end_with_a_line_each_and_the_folder_of_their_files() -> None:
    """What the matrix did not exercise is said once where it is the same for all; up to four are told in full."""
    out, file = console(160)
    reports = [report(SEED if n == 2 else PASS, target=msgspec.structs.replace(TARGET, name=f"t{n}")) for n in range(6)]
    files = [
        Written(Path(f"o/sm_90-native/t{n}/report.json"), Path(f"o/sm_90-native/t{n}/report.md")) for n in range(6)
    ]
    show(reports, files, console=out)
    made = file.getvalue()
    assert "  t1  1 case passed\n  t2  1 of 1 case failed: mismatch, sibling-pitch in V, 1 case\n  t3  1 case" in made
    assert "reports    o/sm_90-native/*/report.md and report.json, 6 of each" in made
    out, file = console(160)
    passes = [report(PASS), report(PASS)]
    show(passes, files[:2], console=out)
    assert file.getvalue().count("This matrix did not exercise") == 1
    assert "o/sm_90-native/t1/report.md" in file.getvalue()
    # The seed's case alone has unlike pitches: five others each say what they lack beside what all do.
    assert made.count("This matrix did not exercise") == 6
    assert made.count("This matrix did not exercise: K and V of unlike token pitch;") == 5
