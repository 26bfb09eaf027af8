"""Reports as JUnit XML, which every CI shows: a suite a report, a test a case.

JUnit has no word for what could not be judged; it is an error there, since a skipped test reads as nothing amiss. A
refused or unsupported case is skipped, with its reason; a case that failed as declared is, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kvcheck.report import axes, sentences
from kvcheck.report.channels import findings
from kvcheck.report.details import case_sentence
from kvcheck.report.exit_codes import fails, ran
from kvcheck.report.plain import number, one_line, printable
from kvcheck.report.repeat import repeat
from kvcheck.report.traces import told
from kvcheck.report.write import replace
from kvcheck.schema import CaseResult, Report

#: What XML 1.0 has no character for, even escaped.
_NOT_XML = re.compile(r"[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
TRACEBACK_LINES = 60


def junit(reports: Sequence[Report], *, strict: bool = False) -> bytes:
    """The reports as one JUnit document. `strict` makes legal codes and refused cases failures."""
    root = Element("testsuites", name="kvcheck")
    for report in reports:
        root.append(_suite(report, strict=strict))
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    indent(root)
    return bytes(tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def write_junit(reports: Sequence[Report], path: Path, *, strict: bool = False) -> None:
    """Write the document in one step. Raises ReportError where it cannot be written."""
    replace(path, junit(reports, strict=strict))


def _suite(report: Report, *, strict: bool) -> Element:
    suite = Element("testsuite", name=_text(f"{report.target.name} {report.arch} {report.execution}"))
    properties = SubElement(suite, "properties")
    facts = {**report.environment, "command": report.command, "kernels_sha256": report.target.kernels_sha256}
    for name, value in facts.items():
        if value is not None:
            SubElement(properties, "property", name=_text(name), value=_text(str(value)))
    for case in report.cases:
        suite.append(_case(report, case, strict=strict))
    beside_cases = [("missing", what) for what in _absent(report)]
    for kind, what in [*beside_cases, *(("compile-failure", what) for what in sentences.uncompiled(report))]:
        beside = SubElement(suite, "testcase", classname=_text(report.target.name), name=_text(what), time="0")
        SubElement(beside, "error", type=kind, message=_text(what))
    suite.set("tests", str(len(suite.findall("testcase"))))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("time", f"{sum(case.seconds for case in report.cases):.3f}")
    suite.set("timestamp", _text(report.created.removesuffix("Z")))
    return suite


def _absent(report: Report) -> list[str]:
    """What is missing from a report, a line each: it must not look whole."""
    lines = [f"shard {name} is missing" for name in report.missing_shards]
    if ran(report) < report.planned:
        lines.append(f"{number(report.planned - ran(report), 'planned case')} did not run")
    return lines


def _case(report: Report, case: CaseResult, *, strict: bool) -> Element:
    name = f"{one_line(case.id)} {axes.in_words(axes.changed(case))}"
    element = Element("testcase", classname=_text(report.target.name), name=_text(name), time=f"{case.seconds:.3f}")
    said = case_sentence(case)
    if case.outcome in ("crash", "timeout", "inconclusive"):
        found = SubElement(element, "error", type=case.outcome, message=_text(said))
    elif fails(case, strict=strict):
        if case.outcome == "pass":
            said = f"legal, not exact: {number(case.codes.legal, 'code')}, {number(case.scales.legal, 'scale')}"
        found = SubElement(element, "failure", type=case.outcome, message=_text(said))
    elif case.outcome == "pass":
        return element
    else:
        SubElement(element, "skipped", message=_text(f"{case.outcome}: {one_line(case.reason) or said}"))
        return element
    parts = [findings(case), one_line(case.reason), told(case.process.error or "", TRACEBACK_LINES)]
    parts += ["\n".join(case.sanitizer), f"repeat: {repeat(report, case.id)}"]
    found.text = _text("\n".join(dict.fromkeys(part for part in parts if part.strip())))
    return element


def _text(words: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", printable(words))
