"""Cases too large for the machine are left alone: nothing is drawn, nothing is claimed of the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvcheck.run.room import BESIDE, PER_BYTE, PER_ELEMENT, no_room
from kvcheck.schema import Case

from .command import KERNELS, matrix, write_matrix

CASE = Case(tokens=10, extra_tokens=2, heads=3, head_dim=5, head_dim_v=7)
NEEDED = 1000 * PER_BYTE + 12 * 3 * (5 + 7) * PER_ELEMENT + BESIDE


@pytest.mark.parametrize(("most", "fits"), [(NEEDED, True), (NEEDED - 1, False)])
def test_what_is_needed_follows_from_allocations_and_elements(most: int, fits: bool) -> None:
    """K's and V's rows are drawn, the extra ones too; everything that is allocated is held several times."""
    assert (no_room(CASE, 1000, most) is None) == fits


def test_the_reason_says_both_sizes() -> None:
    """In units that people read."""
    assert no_room(CASE, 1 << 40, 3 << 29) == (
        "kvcheck needs about 4,096.1 GiB of memory for this case, and a case may have 1.5 GiB here"
    )
    assert "may have 5 MiB here" in str(no_room(CASE, 0, 5 << 20))


def test_a_run_goes_on_beside_cases_that_no_machine_holds(tmp_path: Path) -> None:
    """They are inconclusive before anything of them is drawn; the others pass."""
    cases = write_matrix(tmp_path / "large.toml", tokens=[2, 1 << 24], heads=[1, 1 << 12], head_dim=1 << 12)
    ran = matrix(tmp_path / "out", cases, "--target", KERNELS / "careless.py::right", "--select", "tokens=2,heads=1",
                 "--select", "tokens=16777216")  # fmt: skip
    assert [case.outcome for case in ran.report.cases] == ["pass", "inconclusive", "inconclusive"]
    assert all("kvcheck needs about" in case.reason for case in ran.report.cases[1:])
    assert ran.code == 3
