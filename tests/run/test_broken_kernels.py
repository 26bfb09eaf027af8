"""Break kvcheck's own kernel in ten ways, a word or two each: every one must turn the run to exit 1."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from kvcheck.report.exit_codes import exit_code
from kvcheck.schema import CaseResult, Report

from .command import Ran, matrix, write_matrix
from .once import once

SOURCES = Path(__file__).parents[2] / "kvcheck" / "kernels"


@dataclass(frozen=True)
class Broken:
    """One change to the text of a kernel, and the channels that must condemn it in the case that shows it best."""

    name: str
    file: str
    old: str
    new: str
    channels: frozenset[str]


def _broken(name: str, file: str, old: str, new: str, *channels: str) -> Broken:
    return Broken(name, file, old, new, frozenset(channels))


BROKEN = (
    _broken(
        "pitch", "store", "v, v_codes, v_scales, token, slot, v_token,", "v, v_codes, v_scales, token, slot, k_token,",
        "codes", "scales",
    ),
    # The last element is not stored, and where it is the largest of its row it is missing from the scale too.
    _broken("mask", "store", "& (dims < DIM)", "& (dims < DIM - 1)", "codes", "scales", "lost"),
    _broken("no-mask", "store", "& (dims < DIM)", "& (dims < BLOCK_DIM)", "codes", "scales", "stray"),
    _broken("clamp-limit", "encode", "tl.minimum(normal, 0x7E)", "tl.minimum(normal, 0x78)", "codes"),
    _broken("rounding", "encode", "0x0007FFFF + odd", "0", "codes"),
    _broken("slot", "store", "codes + slot * codes_slot", "codes + (slot + 1) * codes_slot", "codes", "lost", "stray"),
    _broken("scale", "store", "448.0, tl.float32", "240.0, tl.float32", "codes", "scales"),
    _broken("sign", "encode", "0x7F, code | sign)", "0x7F, code)", "codes"),
    _broken(
        "stray-write", "store", "    target = codes", "    tl.store(codes - 1, token.to(tl.uint8))\n    target = codes",
        "stray",
    ),
    _broken("skipped-token", "store", "if slot >= 0:", "if (slot >= 0) & (token != 1):", "lost"),
    _broken(
        "mutated-input", "store", "    magnitude =", "    tl.store(row, (token - token).to(tl.int16))\n    magnitude =",
        "inputs",
    ),
)  # fmt: skip

#: Copies that nothing was done to, which must pass: else the changes would prove nothing.
SOUND = _broken("sound", "store", "store_kernel[(tokens,)]", "store_kernel[(tokens,)]")


#: Those that run as a user runs them.
WHOLE = ("sound", "pitch")


def _copy(folder: Path, broken: Broken) -> None:
    """Write the kernel's two files with one change, under names of their own."""
    for file in ("encode", "store"):
        text = (SOURCES / f"{file}.py").read_text(encoding="utf-8")
        if file == broken.file:
            assert text.count(broken.old) == 1, f"{broken.name}: the kernel has not one {broken.old!r}"
            text = text.replace(broken.old, broken.new)
        module = broken.name.replace("-", "_")
        text = text.replace("from kvcheck.kernels.encode import", f"from encode_{module} import")
        (folder / f"{file}_{module}.py").write_text(text, encoding="utf-8")


def _targets(folder: Path) -> Path:
    """Write the copies, and one file that declares a target for each: one process then serves them all."""
    lines = ["from kvcheck import store_target"]
    for broken in (SOUND, *BROKEN):
        _copy(folder, broken)
        module = broken.name.replace("-", "_")
        lines.append(
            dedent(f"""
            import store_{module}
            @store_target({broken.name!r}, contract=store_{module}.CONTRACT)
            def {module}(k, v, slots, cache):
                store_{module}.launch(k, v, slots, cache)
            """)
        )
    path = folder / "broken.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run of all the copies over two small cases: K's pitch unlike V's, and equal pitches.

    Two of them as a user runs them, confirmed and compiled; no two of the others would differ in that.
    """
    folder = tmp_path_factory.mktemp("broken")
    cases = write_matrix(folder / "small.toml", k_view=["qkv", "dense"], tokens=3, heads=3, head_dim=6)
    with once(but=WHOLE):
        return matrix(folder / "out", cases, "--target", _targets(folder))


def _condemned_by(case: CaseResult) -> set[str]:
    found = {
        "codes": case.codes.wrong,
        "scales": case.scales.wrong,
        "lost": case.writes.lost,
        "stray": case.writes.stray,
        "independence": case.independence.differs or 0,
        "determinism": case.determinism.values_drift,
        "inputs": case.inputs.changed,
    }
    return {channel for channel, count in found.items() if count}


def _unlike_pitches(report: Report) -> CaseResult:
    return next(case for case in report.cases if case.axes["k_view"] == "qkv")


def test_the_copy_that_nothing_was_done_to_passes(ran: Ran) -> None:
    """The kernel's text, copied, is as right as the kernel."""
    report = ran.reports["sound"]
    assert exit_code(report) == 0
    assert [case.outcome for case in report.cases] == ["pass", "pass"]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_each_way_of_breaking_the_kernel_turns_the_run_to_exit_1(ran: Ran, broken: Broken) -> None:
    """A changed word in the kernel is seen, by the channels that it should be seen by and no other."""
    report = ran.reports[broken.name]
    assert exit_code(report) == 1
    assert _condemned_by(_unlike_pitches(report)) == broken.channels


def test_the_run_of_all_of_them_exits_1(ran: Ran) -> None:
    """The command's own exit code is that of its worst target."""
    assert ran.code == 1
    assert set(ran.reports) == {broken.name for broken in (SOUND, *BROKEN)}


def test_the_broken_pitch_is_named(ran: Ran) -> None:
    """The diagnosis of the kernel that reads V with K's pitch says so, and passes where the pitches are equal."""
    qkv, dense = ran.reports["pitch"].cases
    assert [(found.fault, found.tensor) for found in qkv.diagnosis] == [("sibling-pitch", "v")]
    assert qkv.codes.k_wrong == 0
    assert dense.outcome == "pass"


def test_those_that_run_as_a_users_do_are_confirmed_and_compiled(ran: Ran) -> None:
    """The failing case in a fresh interpreter; the kernel's text beside the right one's, whichever is right."""
    assert [case.cold_confirmed for case in ran.reports["pitch"].cases] == [True, None]
    for name, report in ran.reports.items():
        assert [fact.outcome for fact in report.compiled] == (["compiled"] if name in WHOLE else [])
