"""Shards put together."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvcheck.errors import ReportError
from kvcheck.report import sentences
from kvcheck.report.exit_codes import exit_code
from kvcheck.report.merge import carry_emissions, find, merge, shard
from kvcheck.report.write import write
from kvcheck.schema import CaseResult, Digest, Report

from .samples import COMMAND, CRASH, PASS, SEED, TARGET, XFAIL, report


def part(number: str, *cases: CaseResult, planned: int | None = None, **changes: object) -> tuple[Path, Report]:
    """The report of one shard, `1/2` say."""
    command = f"{COMMAND} --shard {number}"
    return Path(f"shard-{number[0]}"), report(*cases, planned=planned, command=command, **changes)


def case(identifier: str, like: CaseResult = PASS) -> CaseResult:
    """A result under another id."""
    return msgspec.structs.replace(like, id=identifier)


def test_shards_make_the_report_of_the_whole_run() -> None:
    """All cases, ordered by id whatever the order of the shards; the command without its shard; counts anew."""
    parts = [part("1/2", case("b"), case("d")), part("2/2", case("a", SEED), case("c"))]
    (merged,) = merge(parts)
    assert [each.id for each in merged.cases] == ["a", "b", "c", "d"]
    assert merged.planned == 4
    assert merged.summary == {"mismatch": 1, "pass": 3}
    assert merged.command == "kvcheck matrix --target specimen:shared-pitch --arch sm_90"
    assert merged.missing_shards == ()
    assert merge(parts[::-1]) == (merged,)
    assert exit_code(merged) == 1


def test_a_missing_shard_is_told_and_exits_3() -> None:
    """However good the others are; and it stays missing when the merged report is merged again without it."""
    parts = [part("1/3", case("a")), part("3/3", case("c"))]
    (merged,) = merge(parts)
    assert merged.missing_shards == ("2/3",)
    assert exit_code(merged) == 3
    assert sentences.result(merged) == "shard 2/3 missing, none of 2 cases failed"
    (few,) = merge(parts[:1])
    assert few.missing_shards == ("2/3", "3/3")
    assert sentences.result(few) == "shard 2/3 and 3/3 missing, none of 1 case failed"
    (again,) = merge([(Path("m"), merged)])
    assert (again.missing_shards, again.planned) == (("2/3",), 2)


def test_a_failure_is_worse_than_a_missing_shard() -> None:
    """Exit status 1 comes before 3."""
    (merged,) = merge([part("1/2", case("a", SEED))])
    assert exit_code(merged) == 1


def test_a_shard_that_lacks_cases_stays_short() -> None:
    """Two of three planned; the same shard run again in full makes it whole."""
    short = part("1/2", case("a"), case("b"), planned=3)
    other = part("2/2", case("x"))
    (merged,) = merge([short, other])
    assert (merged.planned, len(merged.cases), exit_code(merged)) == (4, 3, 3)
    (whole,) = merge([short, other, part("1/2", case("a"), case("b"), case("c"))])
    assert (whole.planned, len(whole.cases), exit_code(whole)) == (4, 4, 0)


def test_a_case_in_two_different_runs_counts_once() -> None:
    """Two matrices that share a case, no shards: three cases planned and run."""
    one = (Path("a"), report(case("a"), case("b"), command="kvcheck matrix one"))
    two = (Path("b"), report(case("b"), case("c"), command="kvcheck matrix two"))
    (merged,) = merge([one, two])
    assert (merged.planned, len(merged.cases)) == (3, 3)


@pytest.mark.parametrize(
    ("one", "other", "outcome", "reason"),
    [
        (PASS, PASS, "pass", ""),
        (SEED, PASS, "mismatch", "judged twice, unlike: mismatch and pass; 2684 codes wrong"),
        (PASS, CRASH, "crash", "judged twice, unlike: crash and pass; CompilationError"),
        (XFAIL, PASS, "inconclusive", "judged twice, unlike: xfail and pass; 2684 codes wrong"),
        (
            PASS,
            msgspec.structs.replace(PASS, digest=Digest("0", "0")),
            "inconclusive",
            "judged twice, pass with unlike bytes",
        ),
        (
            SEED,
            msgspec.structs.replace(SEED, digest=Digest("0", "0")),
            "mismatch",
            "judged twice, mismatch with unlike bytes; 2684 codes wrong",
        ),
    ],
)
def test_a_case_judged_twice_must_agree(one: CaseResult, other: CaseResult, outcome: str, reason: str) -> None:
    """Outcome and bytes; where they don't it is never a pass, and says so, in either order."""
    for pair in ((one, other), (other, one)):
        (merged,) = merge([part("1/1", case("a", pair[0])), part("1/1", case("a", pair[1]))])
        (found,) = merged.cases
        assert (found.outcome, found.reason) == (outcome, reason)
        assert found.cold_confirmed is (one.cold_confirmed if not reason.startswith("judged") else False)


def test_targets_archs_and_executions_stay_apart() -> None:
    """One report each, in order."""
    store = msgspec.structs.replace(TARGET, name="store")
    merged = merge(
        [
            part("1/1", PASS, target=store),
            part("1/1", PASS),
            part("1/1", PASS, arch="sm_89", execution="lowered"),
        ]
    )
    assert [(each.target.name, each.arch) for each in merged] == [
        ("specimen:shared-pitch", "sm_89"),
        ("specimen:shared-pitch", "sm_90"),
        ("store", "sm_90"),
    ]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"target": msgspec.structs.replace(TARGET, kernels_sha256="0")}, "kernels"),
        (
            {"target": msgspec.structs.replace(TARGET, contract=msgspec.structs.replace(TARGET.contract, ulps=9))},
            "contracts",
        ),
        ({"target": msgspec.structs.replace(TARGET, form=msgspec.structs.replace(TARGET.form, page=8))}, "forms"),
        ({"kvcheck": "9"}, "versions of kvcheck"),
        ({"faults": ("a", "b")}, "lists of faults"),
    ],
)
def test_reports_of_unlike_runs_are_refused(changes: dict[str, object], what: str) -> None:
    """One line that names both files and what differs."""
    with pytest.raises(ReportError, match=f"shard-1 and shard-2: .* with unlike {what} are not shards of one run"):
        merge([part("1/2", case("a")), part("2/2", case("b"), planned=None, **changes)])
    with pytest.raises(ReportError, match="unlike numbers of shards"):
        merge([part("1/2", case("a")), part("2/3", case("b"))])


def test_machines_may_differ_and_it_is_said() -> None:
    """Every value of what differs."""
    (merged,) = merge(
        [
            part("1/2", case("a"), environment={"gpu": "A", "torch": "2"}),
            part("2/2", case("b"), environment={"gpu": "B"}),
        ]
    )
    assert merged.environment == {"gpu": "A or B", "torch": "2 or None"}


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("kvcheck matrix --shard 2/3", (2, 3)),
        ("kvcheck matrix --shard=2/3 --out x", (2, 3)),
        ("kvcheck matrix", None),
        ("kvcheck matrix --shard", None),
        ("kvcheck matrix --shard x", None),
        ("kvcheck matrix '", None),
    ],
)
def test_the_shard_is_read_from_the_command(command: str, wanted: tuple[int, int] | None) -> None:
    """Both spellings; None for a whole run and for a command that cannot be read."""
    assert shard(report(PASS, command=command)) == wanted


def test_reports_are_found_below_folders_and_emissions_are_carried(tmp_path: Path) -> None:
    """A folder with none is an error; kept emissions go to the merged report's folder, of that target alone."""
    for number in "12":
        made = part(f"{number}/2", case(number, SEED))[1]
        place = write(made, tmp_path / number).json.parent / "cases"
        place.mkdir()
        (place / f"{number}.msgpack").write_bytes(number.encode())
    found = find([tmp_path / "1", tmp_path / "2"])
    (merged,) = merge(found)
    out = write(merged, tmp_path / "out").json.parent
    carry_emissions(found, merged, out)
    assert sorted(file.read_bytes() for file in (out / "cases").iterdir()) == [b"1", b"2"]
    carry_emissions(found, msgspec.structs.replace(merged, arch="sm_80"), tmp_path / "none")
    assert not (tmp_path / "none").exists()
    carry_emissions(find([out]), merged, out)  # onto itself: nothing to do
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ReportError, match=r"empty: holds no report\.json"):
        find([empty])
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="file: cannot be written"):
        carry_emissions(found, merged, tmp_path / "file")


def test_a_command_that_cannot_be_read_is_kept() -> None:
    """Unbalanced quotes: nothing to take apart."""
    (merged,) = merge([(Path("a"), report(PASS, command="kvcheck '"))])
    assert merged.command == "kvcheck '"


class Longer(Report, frozen=True):
    """A report with one more list, as reports grow."""

    said: tuple[dict[str, int], ...] = ()


def test_other_lists_of_a_report_are_put_together() -> None:
    """Each entry once, whatever it is."""
    first, second = part("1/2", case("a"))[1], part("2/2", case("b"))[1]

    def longer(made: Report, *said: dict[str, int]) -> tuple[Path, Report]:
        fields = {name: getattr(made, name) for name in made.__struct_fields__}
        return Path("x"), Longer(**fields, said=said)

    (merged,) = merge([longer(first, {"a": 1}, {"b": 2}), longer(second, {"b": 2}, {"c": 3})])
    assert isinstance(merged, Longer)
    assert merged.said == ({"a": 1}, {"b": 2}, {"c": 3})


def test_a_folder_that_cannot_be_searched_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may go while it is read, as those of processes do."""

    def gone(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "rglob", gone)
    with pytest.raises(ReportError, match="cannot be searched: No such file or directory"):
        find([tmp_path])
