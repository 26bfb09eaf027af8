"""Results in words: lines for a terminal, and a Markdown report."""

from __future__ import annotations

from collections.abc import Iterable

from kvcheck.encode.facts import EncodeReport, EncoderResult, Example, Named
from kvcheck.encode.kinds import Kind
from kvcheck.formats.decode import decode
from kvcheck.formats.spec import FORMATS

KIND_WORDS: dict[Kind, str] = {
    "rounding": "rounding",
    "overflow": "overflow",
    "nan": "NaN",
    "negative_zero": "-0",
    "subnormal": "subnormal",
}

#: Lines of an encoder's own exception that are shown.
TRACEBACK_LINES = 12


def heading(result: EncoderResult) -> str:
    """Which encoder, which dtype, where: `triton-cast fp32, sm_89 lowered`."""
    where = " ".join(part for part in (result.arch, result.execution) if part)
    return f"{result.encoder} {result.dtype}, {where}"


def verdict(result: EncoderResult) -> str:
    """What was compared and what differs, in one sentence; never more than was run."""
    if result.coverage == "none" or result.outcome not in ("pass", "mismatch", "inconclusive"):
        lines = result.reason.strip().splitlines()
        return f"{result.outcome}: {lines[-1] if lines else 'no reason was given'}"
    number = f"{result.inputs:,}".replace(",", " ")
    every = f"{result.possible:,}".replace(",", " ")
    if result.coverage == "every":
        compared = f"all {every}" if result.inputs == result.possible else f"all {number} inputs that are defined, of"
        compared = f"{compared} inputs" if result.inputs == result.possible else f"{compared} {every}"
    else:
        compared = f"{number} inputs, a sample of {every}"
    differ = f"{result.differ:,}".replace(",", " ")
    said = f"{differ} codes differ of {compared}"
    if result.outcome == "inconclusive":
        return f"inconclusive: {result.reason}; {said}"
    return said


def lines(result: EncoderResult) -> list[str]:
    """One result for a terminal: a line where all is right, more where codes differ."""
    found = [f"{heading(result)}: {verdict(result)}"]
    found += _traceback(result)
    found += [f"    {_named(each)}" for each in result.faults]
    for difference in result.differences:
        found.append(
            f"    {KIND_WORDS[difference.kind]:10} {_count(difference.count):>13}  "
            + _example(result, difference.examples[0])
        )
        found += [f"    {'':24}  {_example(result, each)}" for each in difference.examples[1:]]
    if result.differ:
        found.append(f"    as found: {result.behaves}")
    if result.digests is not None:
        found.append(f"    {result.digests} of 256 digests are the kept ones")
    return found


def _traceback(result: EncoderResult) -> list[str]:
    """The end of an exception's traceback, the last line of which is the verdict's."""
    every = result.reason.strip().splitlines()
    return [f"    {line}" for line in every[-TRACEBACK_LINES:]] if len(every) > 1 else []


def _count(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _named(each: Named) -> str:
    if not each.of:
        return f"{each.fault}: {each.says}"
    return f"{each.fault or 'no named fault'}: {each.says}; explains {_count(each.explains)} of {_count(each.of)}"


def _example(result: EncoderResult, example: Example) -> str:
    digits = 8 if result.dtype == "fp32" else 4
    got, want = (f"0x{code:02X} ({_value(code, result)})" for code in (example.got, example.want))
    return f"{example.x} (0x{example.bits:0{digits}X}): got {got}, want {want}"


def _value(code: int, result: EncoderResult) -> str:
    import numpy as np  # noqa: PLC0415 - one code at a time

    return f"{float(decode(np.array([code], dtype=np.uint8), FORMATS[result.declared.format])[0]):g}"


def markdown(report: EncodeReport) -> str:
    """The whole report: a table of all results, then the differences of each."""
    facts = report.environment
    machine = ", ".join(
        f"{name} {facts[key]}"
        for name, key in (("GPU", "gpu"), ("driver", "driver"), ("torch", "torch"), ("triton", "triton"))
        if facts.get(key)
    )
    out = [
        "# Encoders, input by input",
        "",
        f"kvcheck {report.kvcheck}, {report.created}; {machine or 'no process answered'}.",
        "",
        f"`{report.command}`",
        "",
        "| encoder | input | arch | ran | held against | compared | differ | faults |",
        "| --- | --- | --- | --- | --- | --: | --: | --- |",
    ]
    out += [_row(result) for result in report.results]
    out += _legend(report.results)
    for result in report.results:
        if result.differ or result.outcome not in ("pass", "mismatch"):
            out += ["", f"## {heading(result)}", "", "```", *lines(result), "```"]
    return "\n".join(out) + "\n"


def _row(result: EncoderResult) -> str:
    ran = result.coverage in ("every", "sample")
    compared = f"{_count(result.inputs)}{' (sample)' if result.coverage == 'sample' else ''}" if ran else result.outcome
    policy = result.declared
    usual = (policy.rounding, policy.overflow, policy.nan, policy.negative_zero)
    held = policy.format + ("" if usual == ("rne", "saturate", "canonical", "keep") else f", {', '.join(usual)}")
    cells = (
        result.encoder, result.dtype, result.arch or "-", result.execution, held, compared,
        _count(result.differ) if ran else "", ", ".join(dict.fromkeys(each.fault or "?" for each in result.faults)),
    )  # fmt: skip
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _legend(results: Iterable[EncoderResult]) -> list[str]:
    listed = list(results)
    out = [""]
    references = dict.fromkeys(each.reference for each in listed if each.coverage != "none")
    out += [f"Compared with {words}." for words in references if words]
    if any(each.coverage == "sample" for each in listed):
        out.append("A sample says nothing of the inputs outside it; `--exhaustive` runs every one.")
    return out
