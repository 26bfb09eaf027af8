"""`--device`: what is accepted, which GPU a nursery sees, and how many children each gets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvcheck.errors import SelectionError
from kvcheck.run.devices import devices_of, share, visible

from .command import matrix, write_matrix


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("auto", ("auto",)),
        ("cuda", ("cuda",)),
        ("cpu,cpu", ("cpu", "cpu")),
        ("cuda:0, cuda:12", ("cuda:0", "cuda:12")),
        ("cuda:1,cuda:1", ("cuda:1", "cuda:1")),
    ],
)
def test_a_list_is_split_into_its_entries(text: str, entries: tuple[str, ...]) -> None:
    """In their order; one may stand twice."""
    assert devices_of(text) == entries


@pytest.mark.parametrize("text", ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu,", "cpu:0", "cuda:0;cuda:1"])
def test_what_is_no_device_is_named(text: str) -> None:
    """One line: what was given, and what is expected."""
    with pytest.raises(SelectionError, match=r"^--device: .* is not accepted; expected auto, cpu, cuda, or GPUs"):
        devices_of(text)


@pytest.mark.parametrize("text", ["cpu,cuda:0", "auto,cpu", "cuda,auto"])
def test_kinds_are_not_mixed(text: str) -> None:
    """A report has one execution."""
    with pytest.raises(SelectionError, match="mixes"):
        devices_of(text)


@pytest.mark.parametrize(
    ("device", "listed", "left"),
    [
        ("cpu", None, None),
        ("auto", "3", None),
        ("cuda", "3,5", None),
        ("cuda:1", None, "1"),
        ("cuda:1", "3,5", "5"),
        ("cuda:0", " GPU-8a, GPU-9b ", "GPU-8a"),
    ],
)
def test_a_nursery_sees_its_own_gpu_alone(device: str, listed: str | None, left: str | None) -> None:
    """The number counts what the variable leaves; an entry without a number leaves it as it is."""
    environment = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    assert visible(device, environment) == ({} if left is None else {"CUDA_VISIBLE_DEVICES": left})


@pytest.mark.parametrize("listed", ["3,5", "", "3"])
def test_a_gpu_beyond_those_that_are_visible_is_an_error(listed: str) -> None:
    """Never another GPU in its place."""
    with pytest.raises(SelectionError, match=r"there is no cuda:2: CUDA_VISIBLE_DEVICES"):
        visible("cuda:2", {"CUDA_VISIBLE_DEVICES": listed})


@pytest.mark.parametrize(
    ("cores", "jobs", "entries", "each"), [(16, 0, 1, 8), (16, 0, 4, 4), (2, 0, 4, 1), (2, 5, 4, 5)]
)
def test_children_are_shared_out(
    cores: int, jobs: int, entries: int, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as were asked for each, or an equal part of the cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert share(jobs, entries, most=8) == each


def test_two_nurseries_share_the_cases_of_one_report(tmp_path: Path) -> None:
    """Each case once, in the matrix's order, and the report says what it ran on."""
    cases = write_matrix(tmp_path / "seeds.toml", seed=list(range(12)), tokens=1, heads=1, head_dim=8)
    ran = matrix(tmp_path / "out", cases, "-j", 1, device="cpu,cpu")
    assert ran.code == 0
    assert [case.axes.get("seed", 0) for case in ran.report.cases] == list(range(12))
    assert {case.device for case in ran.report.cases} == {"cpu"}
    assert ran.report.environment["devices"] == "cpu; cpu"
