"""JUnit XML, as CI systems read it."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.errors import ReportError
from kvcheck.report.junit import junit, write_junit
from kvcheck.schema import CaseResult, CodesVerdict, CompileFact, ProcessVerdict, Report

from .samples import (
    CRASH,
    EVERY,
    INCONCLUSIVE,
    PASS,
    REFUSED,
    SEED,
    TIMEOUT,
    UNSUPPORTED,
    VIOLATION,
    XFAIL,
    XPASS,
    report,
)


def parsed(*reports: Report, strict: bool = False) -> Element:
    """The document as a CI would read it."""
    return fromstring(junit(reports, strict=strict))  # noqa: S314 - our own


@pytest.mark.parametrize(
    ("case", "tag", "kind"),
    [
        (CRASH, "error", "crash"),
        (TIMEOUT, "error", "timeout"),
        (INCONCLUSIVE, "error", "inconclusive"),
        (SEED, "failure", "mismatch"),
        (VIOLATION, "failure", "violation"),
        (XPASS, "failure", "xpass"),
        (REFUSED, "skipped", None),
        (UNSUPPORTED, "skipped", None),
        (XFAIL, "skipped", None),
    ],
)
def test_each_outcome_has_its_element(case: CaseResult, tag: str, kind: str | None) -> None:
    """What fails a run fails there; what could not be judged is an error, never a skip."""
    (found,) = parsed(report(case)).findall(f"testsuite/testcase/{tag}")
    assert found.get("type") == kind
    assert found.get("message")


def test_a_pass_is_an_empty_test_and_counts_add_up() -> None:
    """Totals of the document are those of its suites."""
    root = parsed(report(*EVERY), report(PASS))
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "13", "failures": "3", "errors": "4", "skipped": "3",
    }  # fmt: skip
    (test,) = root.findall("testsuite")[1].findall("testcase")
    assert list(test) == []
    assert (test.get("classname"), test.get("name")) == ("specimen:shared-pitch", "a1b2c3 every axis at its default")
    assert test.get("time") == "0.210"


def test_a_failure_says_what_where_and_how_to_repeat_it() -> None:
    """The diagnosis as the message; numbers, reason and the command as the text."""
    (found,) = parsed(report(SEED)).findall("testsuite/testcase/failure")
    assert found.get("message") == "V is read with K's pitch: 1152 elements from row to row instead of 384."
    assert found.text is not None
    assert found.text.startswith("2684 of 3072 V codes wrong")
    assert found.text.endswith("--select 3fa9c1 --out repeat")
    (died,) = parsed(report(CRASH)).findall("testsuite/testcase/error")
    assert "store.py:41, in store" in str(died.text)


def test_strict_fails_legal_and_refused_cases() -> None:
    """Passes and skips without it."""
    legal = msgspec.structs.replace(PASS, codes=CodesVerdict(6144, legal=3))
    assert parsed(report(legal, REFUSED)).get("failures") == "0"
    strict = parsed(report(legal, REFUSED), strict=True)
    assert strict.get("failures") == "2"
    assert strict.findall("testsuite/testcase/failure")[0].get("message") == "legal, not exact: 3 codes, 0 scales"


def test_what_is_missing_is_an_error() -> None:
    """Planned cases that did not run, and shards that were not there, each fail the document."""
    root = parsed(report(PASS, planned=3, missing_shards=("2/3",)))
    assert [each.get("message") for each in root.findall("testsuite/testcase/error")] == [
        "shard 2/3 is missing",
        "2 planned cases did not run",
    ]
    assert (root.get("tests"), root.get("errors")) == ("3", "2")


def test_the_environment_is_properties() -> None:
    """What is not known is left out."""
    found = {each.get("name"): each.get("value") for each in parsed(report(PASS)).findall("testsuite/properties/*")}
    assert found["gpu"] == "NVIDIA H200"
    assert found["fp_fusion"] == "True"
    assert "sanitizer" not in found


@given(st.text(alphabet=st.characters(codec=None), max_size=40))
def test_any_string_makes_a_document_that_reads_back(words: str) -> None:
    """Controls, surrogates and noncharacters included: XML has no way to write them."""
    case = msgspec.structs.replace(
        CRASH, reason=words, process=ProcessVerdict(1, None, words), axes={"k_view": words, words: words}
    )
    root = parsed(report(case, environment={words: words}, command=f"kvcheck {words}"))
    assert root.get("errors") == "1"


def test_it_is_written_in_one_step(tmp_path: Path) -> None:
    """To a folder that is made where it is missing; where that cannot be, one line."""
    write_junit([report(PASS)], tmp_path / "a" / "junit.xml")
    assert (tmp_path / "a" / "junit.xml").read_bytes() == junit([report(PASS)])
    with pytest.raises(ReportError, match="cannot be written"):
        write_junit([report(PASS)], tmp_path / "a" / "junit.xml" / "b")


def test_a_kernel_that_does_not_compile_is_an_error() -> None:
    """Its cases may all have passed in the interpreter: the document must not be green."""
    made = report(
        PASS,
        compiled=(CompileFact("sm_75", "store", "failed", "no fp8"), CompileFact("sm_75", "other", "compiled")),
    )
    root = parsed(made)
    assert root.get("errors") == "1"
    (found,) = root.findall("testsuite/testcase/error")
    assert found.get("message") == "compile-failure: store does not compile for sm_75: no fp8"
