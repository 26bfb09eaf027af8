"""The HTML report: one file, every string escaped, every case in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.report.html import html
from kvcheck.schema import CaseResult, CodesVerdict, CompileFact, ProcessVerdict

from .samples import CRASH, EVERY, PASS, SEED, SIBLING, TARGET, UNSUPPORTED, VIOLATION, report

VOID = {"meta", "input", "br", "link"}
PITCH = msgspec.structs.replace(
    SIBLING, evidence={"strides_used": [1152, 128, 1], "strides_declared": [384, 128, 1], "sibling": "k"}
)
DRAWN = msgspec.structs.replace(SEED, diagnosis=(PITCH,))


class Page(HTMLParser):
    """Elements in order, text by the element that holds it, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element, which must be that one."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Collect what is shown."""
        if not {"style", "script"} & set(self.open):
            self.text += data


def test_every_case_is_a_row_with_its_outcome_and_finding() -> None:
    """One row a case, the worst first; the headline, the groups and the reasons as in Markdown."""
    made = html([report(*EVERY)])
    page = Page(made)
    assert page.open == []
    rows = [value for tag, name, value in page.attributes if tag == "tr" and name == "data-is"]
    assert len(rows) == len(EVERY)
    assert rows[0] == "crash"
    assert rows[-1] == "pass"
    for case in EVERY:
        assert case.id in page.text
    assert "6 of 12 cases failed, 6 compared" in page.text
    assert "mismatch, sibling-pitch in V, 1 case" in page.text
    assert "accepts inner=1; K has an inner stride of 2" in page.text


def test_nothing_is_fetched_from_elsewhere() -> None:
    """No link, script, style or picture but what the file holds, and a policy that forbids the rest."""
    page = Page(html([report(*EVERY)]))
    assert not {"link", "img", "iframe"} & set(page.tags)
    assert [value for _, name, value in page.attributes if name in ("src", "srcset", "action")] == []
    assert all(str(value).startswith("#") for _, name, value in page.attributes if name == "href")
    assert "default-src 'none'" in str(page.attributes)
    made = html([report(PASS)])
    assert not re.search(r"url\(|@import|https?://", made.replace("http-equiv", ""))


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=y>{{ 7*7 }}</style></script>"


def test_hostile_strings_stay_text() -> None:
    """A target, axis, fault, traceback, reason and environment chosen to break out: text, in every place."""
    bad = msgspec.structs.replace(
        DRAWN,
        axes={"k_view": HOSTILE, HOSTILE: HOSTILE},
        reason=HOSTILE,
        diagnosis=(msgspec.structs.replace(PITCH, fault=HOSTILE, says=HOSTILE, evidence={HOSTILE: HOSTILE}),),
    )
    crash = msgspec.structs.replace(CRASH, process=ProcessVerdict(1, HOSTILE, HOSTILE), sanitizer=(HOSTILE,))
    made = html(
        [
            report(
                bad,
                crash,
                msgspec.structs.replace(UNSUPPORTED, reason=HOSTILE),
                target=msgspec.structs.replace(TARGET, name=HOSTILE),
                environment={"gpu": HOSTILE, HOSTILE: HOSTILE},
                faults=(HOSTILE, "b", "c", "d"),
                command=HOSTILE,
            )
        ]
    )
    page = Page(made)
    assert page.open == []
    assert page.tags.count("script") == page.tags.count("style") == 1
    assert "img" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "{{ 7*7 }}" in page.text


def test_a_failing_case_with_strides_is_drawn_and_others_are_not() -> None:
    """In its group and in its row; a diagnosis without strides, a crash and a pass have no drawing."""
    assert html([report(DRAWN)]).count("<svg") == 2
    assert html([report(SEED, CRASH, PASS, VIOLATION)]).count("<svg") == 0


def test_a_green_run_has_no_failures_and_says_what_was_compared() -> None:
    """No heading for what did not happen; a pass without a code says so."""
    nothing = msgspec.structs.replace(PASS, id="2", codes=CodesVerdict())
    page = Page(html([report(PASS, nothing)]))
    assert "What failed" not in page.text
    assert "Other outcomes" not in page.text
    assert "all 2 cases passed, 1 compared" in page.text
    assert "6144 codes compared" in page.text
    assert "no code was due" in page.text


def test_several_reports_are_listed_at_the_top() -> None:
    """A link for each, with what ran; one report alone needs none; none at all is still a page."""
    made = Page(html([report(PASS), report(SEED, execution="lowered", arch="sm_89")]))
    assert "lowered sm_89 1 of 1 case failed" in " ".join(made.text.split())
    assert [value for tag, _, value in made.attributes if tag == "a"] == ["#report-1", "#report-2"]
    assert "nav" not in Page(html([report(PASS)])).tags
    assert Page(html([report()])).open == []


def test_many_groups_are_counted_and_their_cases_still_listed() -> None:
    """Forty groups are shown; every case is in the table."""
    cases = [
        msgspec.structs.replace(CRASH, id=f"c{n}", process=ProcessVerdict(error=f"{'abcdefghij'[n % 10] * (n + 1)}"))
        for n in range(45)
    ]
    page = Page(html([report(*cases)]))
    assert page.tags.count("article") == 40
    assert "5 more groups: see the table." in page.text
    assert len([1 for tag, name, _ in page.attributes if tag == "tr" and name == "data-is"]) == 45


@pytest.mark.parametrize(("strict", "tone"), [(False, "ok"), (True, "fail")])
def test_strict_is_said(strict: bool, tone: str) -> None:
    """A run that only --strict fails is green without it and red with it."""
    legal = msgspec.structs.replace(PASS, codes=CodesVerdict(6144, legal=3))
    assert f'class="verdict {tone}"' in html([report(legal)], strict=strict)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from((*EVERY, DRAWN)), max_size=8), st.booleans())
def test_any_report_is_a_whole_page(cases: list[CaseResult], strict: bool) -> None:
    """Every element closed, a row for each case, whatever they are and however few."""
    page = Page(html([report(*cases)], strict=strict))
    assert page.open == []
    rows = [value for tag, name, value in page.attributes if tag == "tr" and name == "data-is"]
    assert sorted(map(str, rows)) == sorted(case.outcome for case in cases)


def test_a_kernel_that_does_not_compile_is_told_among_the_failures() -> None:
    """With all that the compiler said, though every case passed in the interpreter."""
    failed = CompileFact("sm_75", "store", "failed", "no <fp8>", "line one\nline two")
    page = Page(html([report(PASS, compiled=(failed,))]))
    assert "What failed" in page.text
    assert "compile-failure: store does not compile for sm_75: no <fp8>" in page.text
    assert "line one\nline two" in page.text
    assert "but a kernel does not compile" in page.text
