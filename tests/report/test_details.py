"""The rows under a group of failures."""

from __future__ import annotations

import msgspec

from kvcheck.report import details
from kvcheck.report.groups import Group, group_failures
from kvcheck.schema import CaseResult, SanitizerRecord, SanitizerRun, Tolerance, ToleranceVerdict

from .samples import CRASH, NAMELESS, PASS, SEED, TIMEOUT, UNSUPPORTED, VIOLATION, XPASS, report


def only(*cases: CaseResult) -> Group:
    """The one group of these cases."""
    (group,) = group_failures(report(*cases))
    return group


def row(label: str, *cases: CaseResult) -> str | None:
    """The text of a row of the one group of these cases, or None where it has no such row."""
    return next((row.text for row in details.rows(only(*cases)) if row.label == label), None)


def with_tolerance(identifier: str, k: Tolerance, v: Tolerance) -> CaseResult:
    """The original fault with other tolerance figures."""
    return msgspec.structs.replace(SEED, id=identifier, tolerance=ToleranceVerdict(k, v))


def test_the_rows_of_the_original_fault() -> None:
    """What was found, explained, fooled, and the case itself, in this order."""
    assert [(each.label, each.text) for each in details.rows(only(PASS, SEED))] == [
        (
            "found",
            (
                "2684 of 3072 V codes wrong, 0 of 3072 K; first: V token 1 head 0 dim 0 slot 4: got 0x7E, want 0x31 "
                "(x = 0.00341796875, scale = 2.18493598e-05)"
            ),
        ),
        ("explains", "2684 of 2684 wrong bytes (pitch = 1152, declared = 384)"),
        ("or", "dense-heads in V explains 764 of 2684"),
        ("tolerance", "a usual tolerance test (max abs 0.08) would have passed V: K 0.58, V 0.042"),
        ("case", "3fa9c1: k_view=qkv k_values=columns*5 v_values=columns*0.01"),
    ]


def test_titles_name_outcome_cause_and_count() -> None:
    """A cause where there is one, the channels otherwise; a timeout and an xpass speak for themselves."""
    assert [details.title(group) for group in group_failures(report(SEED, CRASH, TIMEOUT, VIOLATION, XPASS))] == [
        "crash, CompilationError, 1 case",
        "timeout, 1 case",
        "mismatch, sibling-pitch in V, 1 case",
        "xpass, 1 case",
        "violation, independence, determinism, inputs, sanitizer, 1 case",
    ]


def test_witnesses_say_what_they_saw() -> None:
    """Tool, layout and way, then records or state; why nothing is known; how records and codes agree."""
    record = SanitizerRecord("initcheck", "uninitialised", "reads")
    runs = (
        SanitizerRun("initcheck", "pooled", "replay", "records", "", (record,), agreement="both name V"),
        SanitizerRun("memcheck", "exact", "whole", "inconclusive", "no summary"),
        SanitizerRun("racecheck", "exact", "whole", "clean", "no kernel was launched"),
    )
    case = msgspec.structs.replace(SEED, sanitized=runs)
    assert row("witness", case) == (
        "initcheck (pooled, replay): 1 record; both name V; memcheck (exact, whole): inconclusive; no summary; "
        "racecheck (exact, whole): clean"
    )
    assert row("witness", SEED) is None


def test_what_a_sanitizer_said_beside_its_records_is_told() -> None:
    """Records of torch's own kernels are counted; what kvcheck cannot read is shown, cut where it is long."""
    run = SanitizerRun(
        "initcheck", "pooled", "whole", "clean", unknown=("<novel>1</novel>", "<x>" * 99), left_out=("2 records of f",)
    )
    said = str(row("witness", msgspec.structs.replace(SEED, sanitized=(run,))))
    assert said.startswith(
        "initcheck (pooled, whole): clean; left out, as torch's own: 2 records of f; not known to kvcheck: "
        "<novel>1</novel>, <x><x>"
    )
    assert said.endswith("...")


def test_a_sentence_is_the_diagnosis_own_or_plain() -> None:
    """Without a diagnosis, or with one that says nothing, the numbers are told once."""
    mute = msgspec.structs.replace(SEED, diagnosis=(msgspec.structs.replace(SEED.diagnosis[0], says=""),))
    assert details.sentence(only(SEED)) == "V is read with K's pitch: 1152 elements from row to row instead of 384."
    assert details.sentence(only(NAMELESS)).startswith("2684 of 3072 V codes wrong")
    assert row("found", NAMELESS) is None
    assert details.sentence(only(mute)) == details.sentence(only(NAMELESS))
    assert row("found", mute) is None
    assert details.sentence(only(XPASS)) == "passed, although its declared fault was observable"
    assert details.sentence(only(msgspec.structs.replace(XPASS, reason="because"))) == "because"


def test_tolerance_is_told_only_where_it_would_have_passed_wrong_codes() -> None:
    """Never for a case that it would have caught, nor for a right tensor, nor where it was not computed."""
    good, bad = Tolerance(0.031, True, 0.03, True), Tolerance(0.58, False, 0.6, False)
    assert row("tolerance", with_tolerance("1", bad, bad)) is None
    assert row("tolerance", with_tolerance("1", good, bad)) is None
    assert row("tolerance", with_tolerance("1", good, Tolerance())) is None
    test = "a usual tolerance test (max abs 0.08) would have passed"
    assert row("tolerance", with_tolerance("1", good, good)) == f"{test} this case: K 0.031, V 0.031"
    assert row("tolerance", with_tolerance("1", Tolerance(), good)) == f"{test} V: K not finite, V 0.031"


def test_tolerance_of_several_cases_is_counted() -> None:
    """How many of the group it would have passed, with the figures of the first of them."""
    good, bad = Tolerance(0.031, True, 0.03, True), Tolerance(0.58, False, 0.6, False)
    cases = [with_tolerance("1", bad, bad), with_tolerance("2", bad, good), with_tolerance("3", good, good)]
    assert str(row("tolerance", *cases[1:])).startswith("in 2 of 2 cases a usual tolerance test")
    assert row("tolerance", *cases) == (
        "in 2 of 3 cases a usual tolerance test (max abs 0.08) would have passed the tensor that is wrong; in 2: "
        "K 0.58, V 0.031"
    )


def test_shared_axes_are_told_of_several_cases_alone() -> None:
    """One case shares its axes with nobody; several show six and count the others."""
    again = msgspec.structs.replace(SEED, id="4")
    assert row("shared", PASS, SEED) is None
    assert row("shared", SEED, again) is None
    assert row("shared", PASS, SEED, again) == "k_view=qkv k_values=columns*5 v_values=columns*0.01"
    axes: dict[str, str | int] = {f"axis{index}": index for index in range(8)}
    many = [msgspec.structs.replace(SEED, id=name, axes=axes) for name in "56"]
    assert row("shared", PASS, *many) == "axis0=0 axis1=1 axis2=2 axis3=3 axis4=4 axis5=5 and 2 more"
    assert row("example", PASS, *many) == "5: " + " ".join(f"axis{index}={index}" for index in range(8))


def test_counts_show_failing_of_all_by_value() -> None:
    """Six values of an axis and three axes; more are marked."""
    sizes = [msgspec.structs.replace(SEED, id=str(n), axes={"tokens": n}) for n in range(1, 9)]
    passing = msgspec.structs.replace(PASS, axes={"tokens": 2})
    assert row("counts", passing, *sizes[:2]) == "tokens 1: 1/1, 2: 1/2"
    assert row("counts", passing, *sizes) == "tokens 1: 1/1, 3: 1/1, 4: 1/1, 5: 1/1, 6: 1/1, 7: 1/1, ..."
    assert row("counts", *sizes) == "all 8 cases judged"
    wide = [msgspec.structs.replace(SEED, id=str(n), axes={f"axis{i}": n for i in range(8)}) for n in range(2)]
    assert str(row("counts", PASS, *wide)).endswith("; 5 more axes")


def test_a_verdict_that_changed_is_told() -> None:
    """Where a fresh interpreter judged otherwise the group says of how many; confirmed or not run again is silent."""
    unsteady = msgspec.structs.replace(SEED, id="4", cold_confirmed=False)
    assert row("confirmed", SEED, unsteady) == "the verdict changed in a fresh interpreter in 1 of 2 cases"
    assert row("confirmed", SEED, msgspec.structs.replace(SEED, id="4", cold_confirmed=None)) is None


def test_evidence_is_told_in_few_characters() -> None:
    """Numbers as they are, long lists cut and counted, nothing where there is none."""
    evidence: dict[str, int | float | str | list[int]] = {
        "ratio": 0.125,
        "rows": list(range(9)),
        "few": [1, 2],
        "a": "b",
    }
    found = msgspec.structs.replace(SEED.diagnosis[0], evidence=evidence)
    assert row("explains", msgspec.structs.replace(SEED, diagnosis=(found,))) == (
        "2684 of 2684 wrong bytes (ratio = 0.125, rows = [0, 1, 2, 3, 4, 5, 3 more], few = [1, 2], a = b)"
    )
    bare = msgspec.structs.replace(found, evidence={}, explains=1, of=1, tensor="")
    assert row("explains", msgspec.structs.replace(SEED, diagnosis=(bare, bare))) == "1 of 1 wrong byte"
    assert row("or", msgspec.structs.replace(SEED, diagnosis=(bare, bare))) == "sibling-pitch explains 1 of 1"


def test_cases_that_were_not_judged_say_nothing_of_where_a_group_fails() -> None:
    """Neither the counts nor the deciding axes look at what the target does not take: that would restate its limits."""
    failing = [msgspec.structs.replace(SEED, id=f"f{n}", axes={"k_view": "qkv", "seed": n}) for n in range(4)]
    outside = [msgspec.structs.replace(UNSUPPORTED, id=f"u{n}", axes={"k_view": "inner2", "seed": n}) for n in range(4)]
    assert row("exactly", *failing, *outside) is None
    assert row("counts", *failing, *outside) == "all 4 cases judged"
    passing = [msgspec.structs.replace(PASS, id=f"p{n}", axes={"k_view": "dense", "seed": n}) for n in range(4)]
    assert row("exactly", *failing, *outside, *passing) == "where k_view is qkv, of 8 cases judged"


def test_the_most_telling_axis_is_counted_first() -> None:
    """An axis along which cases fail and pass comes before one along which they fail evenly."""
    cases = [
        msgspec.structs.replace(SEED if tokens == 8 else PASS, id=f"{tokens}{n}", axes={"tokens": tokens, "seed": n})
        for tokens in (1, 8, 9)
        for n in range(3)
    ]
    also = msgspec.structs.replace(SEED, id="x", axes={"tokens": 9, "seed": 0})
    told = str(row("counts", *cases, also))
    assert told.startswith("tokens 8: 3/3, 9: 1/4, 1: 0/3; seed ")


def test_a_fault_that_explains_no_bytes_shows_its_evidence_alone() -> None:
    """A compile failure has no wrong byte."""
    found = msgspec.structs.replace(SEED.diagnosis[0], of=0, explains=0, evidence={"compiler": "no fp8"})
    assert row("explains", msgspec.structs.replace(CRASH, diagnosis=(found,))) == "compiler = no fp8"
