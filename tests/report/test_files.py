"""Writing a report and reading it back."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.contract import Contract, Form, Given, LoadContract
from kvcheck.errors import ReportError
from kvcheck.report.markdown import markdown
from kvcheck.report.read import decode, read
from kvcheck.report.write import encode, folder, replace, safe, write
from kvcheck.schema import Report, TargetFacts

from .samples import EVERY, FIRST, PASS, SEED, TARGET, report

LOAD = TargetFacts(name="load", kind="load", contract=LoadContract(), form=Form("pages"), kernels_sha256="00")


def test_a_report_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Both files lie in the folder of arch, execution and target, and the JSON reads back equal."""
    made = report(*EVERY)
    written = write(made, tmp_path)
    assert written.json == tmp_path / "sm_90-native" / "specimen-shared-pitch" / "report.json"
    assert written.markdown.read_text() == markdown(made)
    assert read(written.json) == read(written.json.parent) == made
    assert sorted(path.name for path in written.json.parent.iterdir()) == ["report.json", "report.md"]


@pytest.mark.parametrize("contract", [Contract(scale=None), Contract(scale=Given("head")), LoadContract()])
def test_every_kind_of_contract_comes_back(contract: Contract | LoadContract) -> None:
    """A given scale, no scale, and a load target's contract."""
    made = report(PASS, target=msgspec.structs.replace(LOAD, contract=contract))
    assert decode(encode(made)) == made


def test_the_json_is_made_for_git() -> None:
    """Indented, a line at the end, keys in the schema's order, free tables sorted, lists of numbers on one line."""
    text = encode(report(PASS, SEED)).decode()
    assert text.startswith('{\n  "schema": "kvcheck.report/1",\n  "kvcheck": ')
    assert text.endswith("]\n}\n")
    assert '"observable": [0, 1]' in text
    made = json.loads(text)
    assert list(made) == list(Report.__struct_fields__)
    assert list(made["environment"]) == sorted(made["environment"])
    assert list(made["cases"][1]["diagnosis"][0]["evidence"]) == ["declared", "pitch"]
    assert encode(report(PASS, SEED)) == encode(decode(text.encode()))


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.one_of(st.text(max_size=20), st.floats(), st.integers(-9, 9), st.lists(st.integers(-99, 99), max_size=4)),
        max_size=4,
    ),
    st.text(max_size=30),
)
def test_any_evidence_and_any_text_make_json(evidence: dict[str, int | float | str | list[int]], words: str) -> None:
    """No NaN, no infinity, and every string as it was: folding lists of numbers changes no string."""
    diagnosis = msgspec.structs.replace(SEED.diagnosis[0], evidence=evidence, says=f"[\n 1,\n 2] {words}")
    made = report(msgspec.structs.replace(SEED, diagnosis=(diagnosis,)))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(encode(made), parse_constant=refuse)
    back = decode(encode(made)).cases[0].diagnosis[0]
    assert back.says == diagnosis.says
    assert back.evidence.keys() == evidence.keys()
    for key, value in evidence.items():
        finite = not isinstance(value, float) or np.isfinite(value)
        assert back.evidence[key] == (value if finite else str(value))


def test_a_float_that_is_not_finite_is_null() -> None:
    """A NaN in the data is null in the report."""
    first = msgspec.structs.replace(FIRST, x=float("nan"), scale=float("inf"))
    codes = msgspec.structs.replace(SEED.codes, first=first)
    back = decode(encode(report(msgspec.structs.replace(SEED, codes=codes)))).cases[0].codes.first
    assert back == msgspec.structs.replace(FIRST, x=None, scale=None)


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    """Evidence and environment may hold numpy's scalars; anything else is written as text."""
    evidence = {"pitch": np.int64(1152), "ratio": np.float64(0.5), "path": Path("a/b"), "z": np.complex64(1)}
    diagnosis = msgspec.structs.replace(SEED.diagnosis[0], evidence=evidence)
    back = decode(encode(report(msgspec.structs.replace(SEED, diagnosis=(diagnosis,)))))
    assert back.cases[0].diagnosis[0].evidence == {"path": "a/b", "pitch": 1152, "ratio": 0.5, "z": "(1+0j)"}


def test_a_string_that_is_no_unicode_is_written(tmp_path: Path) -> None:
    """What a process printed may hold a lone surrogate; the report is written all the same."""
    process = msgspec.structs.replace(PASS.process, error="caf\udce9 \N{SNOWMAN}")
    written = write(report(msgspec.structs.replace(SEED, process=process)), tmp_path)
    assert read(written.json).cases[0].process.error == "caf\N{REPLACEMENT CHARACTER} \N{SNOWMAN}"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("specimen:shared-pitch", "specimen-shared-pitch"),
        ("file.py::name", "name"),
        ("dir/file.py::a b", "a-b"),
        ("../../etc/passwd", "etc-passwd"),
        ("..", "target"),
        ("", "target"),
        ("a::", "target"),
        (".hidden", "hidden"),
        ("x" * 300, "x" * 100),
    ],
)
def test_a_target_names_its_folder(tmp_path: Path, name: str, wanted: str) -> None:
    """A name of any kind gives one folder right below arch and execution."""
    made = report(PASS, target=msgspec.structs.replace(TARGET, name=name))
    assert folder(made, tmp_path) == tmp_path / "sm_90-native" / wanted


@given(st.text())
def test_a_safe_name_is_a_file_name(name: str) -> None:
    """Never empty, never a path, never hidden."""
    made = safe(name)
    assert 0 < len(made) <= 100
    assert not made.startswith((".", "-"))
    assert "/" not in made
    assert "\0" not in made


def test_two_targets_of_one_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """The second of a run gets a number; a later run writes over the first."""
    made = report(PASS)
    first = write(made, tmp_path).json.parent
    second = write(made, tmp_path, taken=[first]).json.parent
    third = write(made, tmp_path, taken=[first, second]).json.parent
    assert [place.name for place in (first, second, third)] == [
        "specimen-shared-pitch",
        "specimen-shared-pitch-2",
        "specimen-shared-pitch-3",
    ]
    assert write(made, tmp_path).json.parent == first


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failure_in_the_middle_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """A full disk is one line, the old bytes stay, and no part is left behind."""
    path = tmp_path / "report.json"
    replace(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if broken == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(ReportError, match=r"report\.json: cannot be written: No space left on device\Z"):
        replace(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["report.json"]  # noqa: PTH208 - hidden files too


def test_an_interrupt_in_the_middle_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between the bytes and the rename goes on as Ctrl-C, the old bytes stay."""
    path = tmp_path / "report.json"
    replace(path, b"old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        replace(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["report.json"]  # noqa: PTH208


def test_the_bytes_are_on_the_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced, then renamed, then its folder is synced; a folder that cannot be is no error."""
    done: list[str] = []
    rename = Path.replace

    def fsync(handle: int) -> None:
        done.append("folder" if Path(f"/proc/self/fd/{handle}").resolve().is_dir() else "file")
        if done[-1] == "folder":
            raise OSError(errno.EINVAL, "no such thing here")

    def renamed(self: Path, target: Path) -> Path:
        done.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", renamed)
    replace(tmp_path / "report.json", b"new")
    assert done == ["file", "rename", "folder"]
    assert (tmp_path / "report.json").read_bytes() == b"new"


def test_a_place_that_is_no_folder_is_one_line(tmp_path: Path) -> None:
    """A file where a folder should be, or a folder that may not be written to."""
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ReportError, match="cannot be written: Not a directory") as caught:
        write(report(PASS), tmp_path / "out")
    assert "\n" not in str(caught.value)


def test_files_can_be_read_by_others(tmp_path: Path) -> None:
    """A report has the permissions that any new file has."""
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    replace(tmp_path / "report.json", b"{}")
    assert (tmp_path / "report.json").stat().st_mode == plain.stat().st_mode


def _changed(*path: str | int, value: object) -> bytes:
    """The JSON of a good report with one value changed."""
    top = json.loads(encode(report(PASS, SEED)))
    inner = top
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return json.dumps(top).encode()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"\xff\xfe", "malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "its schema is None; expected 'kvcheck.report/1'"),
        (_changed("schema", value="kvcheck.report/2"), "its schema is 'kvcheck.report/2'"),
        (_changed("target", value=3), r"got `int` - at `\$\.target`"),
        (_changed("target", "contract", value=3), r"at `\$\.target\.contract`"),
        (_changed("target", "contract", "type", value="x"), r"Invalid value 'x' - at `\$\.target\.contract\.type`"),
        (_changed("target", "contract", "scale", "type", value="x"), r"at `\$\.target\.contract\.scale\.type`"),
        (_changed("target", "contract", "scale", value=3), r"at `\$\.target\.contract\.scale`"),
        (_changed("target", "form", value=[]), r"at `\$\.target\.form`"),
        (_changed("cases", 1, "outcome", value="fine"), r"Invalid enum value 'fine' - at `\$\.cases\[1\]\.outcome`"),
        (_changed("cases", 0, "seconds", value="1\n2"), r"Expected `float`, got `str` - at `\$\.cases\[0\]\.seconds`"),
        (_changed("cases", 0, "observable", value=[9]), "a1b2c3: observable points outside the 4 faults"),
        (_changed("cases", 0, "shown", value=[0]), "a1b2c3: shown points outside the 0 forms"),
    ],
)
def test_what_is_no_report_is_refused_in_one_line(tmp_path: Path, data: bytes, says: str) -> None:
    """Truncated, malformed, of another schema, or with a value of another type: the file and the place are named."""
    file = tmp_path / "report.json"
    file.write_bytes(data)
    with pytest.raises(ReportError, match=rf"report\.json: not a report: .*{says}") as caught:
        read(file)
    assert "\n" not in str(caught.value)


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    """A report without its cases is not an empty report."""
    top = json.loads(encode(report(PASS)))
    del top["cases"]
    (tmp_path / "r.json").write_text(json.dumps(top))
    with pytest.raises(ReportError, match="missing required field `cases`"):
        read(tmp_path / "r.json")


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    """The path that was looked for is named."""
    with pytest.raises(ReportError, match=r"none\.json: no such file or folder; expected a report\.json, "):
        read(tmp_path / "none.json")
    with pytest.raises(
        ReportError, match=r"the folder holds no report\.json; expected a report\.json, or the folder of one\Z"
    ):
        read(tmp_path)


def test_fields_of_a_newer_version_are_passed_over() -> None:
    """A field more anywhere, in the contract and the form too, changes nothing that is read."""
    made = report(PASS, SEED)
    top = json.loads(encode(made))

    def grow(value: object, free: bool = False) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                grow(item, free or key in ("axes", "environment", "evidence", "summary", "engine_files"))
            if not free:
                value["field_of_tomorrow"] = [{"a": 1}]
        elif isinstance(value, list):
            for item in value:
                grow(item, free)

    grow(top)
    assert decode(json.dumps(top).encode()) == made


def test_a_pipe_or_a_device_is_written_to_and_stays(tmp_path: Path) -> None:
    """`--junit /dev/stdout`, as root, had put a file in the place of the device."""
    pipe, name = tmp_path / "pipe", tmp_path / "name"
    os.mkfifo(pipe)
    name.symlink_to(pipe)
    for path in (pipe, name):
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            replace(path, b"whole")
            assert os.read(reader, 99) == b"whole"
        finally:
            os.close(reader)
    assert pipe.is_fifo()
    assert name.is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["name", "pipe"]
