"""Which cells of two runs belong together, what may be compared, and how it is shown."""

import json
import math

import msgspec
import numpy as np
import pytest
from support.records import HOST, make_cell, make_run, timed

from metalbench.results import comparison_report, printers
from metalbench.results.comparison import IncomparableError, compare
from metalbench.results.evidence import of_pairs
from metalbench.results.record import Host, Memory
from metalbench.results.summary import Summary


def naming(cell):
    return f"size {cell.case['size']}"


def launches(cell, ns, count=8, seed=0, **changes):
    rng = np.random.default_rng([seed, round(ns)])
    return [timed(cell, launch, [ns * rng.normal(1, 0.01)] * 3, **changes) for launch in range(count)]


def recorded(records, name="r", **changes):
    cells = list({record.cell.key(): record.cell for record in records}.values())
    return msgspec.structs.replace(make_run(cells, name=name, launches=len(records)), **changes), records


def verdicts(found):
    return {
        (change.candidate.cell.case["size"], change.candidate.cell.backend): change.time and change.time.verdict for change in found.changes
    }


def test_each_cell_is_held_against_itself_and_the_worst_comes_first():
    base = [record for size, ns in ((1, 1e6), (2, 1e6), (3, 1e6)) for record in launches(make_cell(size=size), ns)]
    after = [record for size, ns in ((3, 1.003e6), (2, 1.3e6), (1, 0.7e6)) for record in launches(make_cell(size=size), ns, seed=1)]
    found = compare(recorded(base, "a"), recorded(after, "b"))
    assert [change.candidate.cell.case["size"] for change in found.changes] == [2, 3, 1]
    assert list(verdicts(found).values()) == ["slower", "same", "faster"]
    assert found.changes[0].time.ratio == pytest.approx(1.3, rel=0.02)
    assert found.changes[0].time.low < 1.3 < found.changes[0].time.high
    assert found.missing == []


def test_a_cell_that_one_side_lacks_is_missing_and_not_equal():
    base = launches(make_cell(size=1), 1e6) + launches(make_cell(size=2), 1e6)
    found = compare(recorded(base, "a"), recorded(launches(make_cell(size=1), 1e6, seed=1), "b"))
    assert [(cell.case["size"], side) for cell, side in found.missing] == [(2, "base only")]
    assert len(found.changes) == 1
    chosen = compare(recorded(base, "a"), recorded(base, "b"), wanted=lambda cell: cell.case["size"] == 2)
    assert len(chosen.changes) == 1


def test_another_release_in_an_environment_of_its_own_is_the_same_backend():
    old, new = (make_cell(environment=f"torch-cpu:torch=={version}") for version in ("2.12", "2.13"))
    found = compare(
        recorded(launches(old, 1e6, facts={"torch": "2.12"}), "a"), recorded(launches(new, 2e6, facts={"torch": "2.13", "new": "x"}), "b")
    )
    assert [change.versions for change in found.changes] == ["torch 2.12 → 2.13, new none → x"]
    assert list(verdicts(found).values()) == ["slower"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2}, "version of the workload (1 and 2)"),
        ({"policy": "tf32"}, "precision policy"),
        ({"protocol": "throughput"}, "protocol"),
    ],
)
def test_what_is_not_the_same_work_is_refused(changes, words):
    sides = recorded(launches(make_cell(), 1e6), "a"), recorded(launches(make_cell(**changes), 2e6), "b")
    with pytest.raises(IncomparableError, match="--across") as error:
        compare(*sides)
    assert words in str(error.value)
    assert len(compare(*sides, across=True).changes) == 1


def test_another_machine_is_refused():
    records = launches(make_cell(), 1e6)
    other = recorded(records, "b", host=Host(key="other", facts={"chip": "M9"}))
    with pytest.raises(IncomparableError, match="the machine \\(M5 and M9\\)"):
        compare(recorded(records, "a"), other)
    assert HOST.key != "other"


def test_what_was_planned_and_not_measured_is_missing_too():
    cells = [make_cell(size=size) for size in range(4)]
    run = make_run(cells)
    half = [record for cell in cells[:2] for record in launches(cell, 1e6)]
    found = compare((run, half), (msgspec.structs.replace(run, id="b"), half[:-8]))
    assert [(cell.case["size"], whose) for cell, whose in found.missing] == [
        (1, "base only"),
        (2, "measured by neither"),
        (3, "measured by neither"),
    ]


def test_half_of_a_pair_of_runs_is_not_held_against_one_that_ran_alone():
    records = launches(make_cell(), 1e6)
    with pytest.raises(IncomparableError, match="in turn with another, and alone"):
        compare(recorded(records, "a", beside="x"), recorded(records, "b"))


def test_a_status_that_changed_is_told_and_makes_no_ratio():
    sides = recorded(launches(make_cell(), 1e6), "a"), recorded(launches(make_cell(), 1e5, status="wrong", reason="off"), "b")
    (change,) = compare(*sides).changes
    assert (change.time, change.status, change.worsened) == (None, "ok → wrong", True)
    assert change.outcomes() == {"wrong"}
    (back,) = compare(*reversed(sides)).changes
    assert (back.status, back.worsened, back.outcomes()) == ("wrong → ok", False, {"ok"})


def test_wrong_on_both_sides_is_no_change():
    sides = [recorded(launches(make_cell(), ns, status="wrong"), name) for ns, name in ((1e6, "a"), (2e6, "b"))]
    (change,) = compare(*sides).changes
    assert (change.time, change.status, change.outcomes()) == (None, "wrong", frozenset())


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (Memory(process_peak=100 << 20, process_source="s"), Memory(process_peak=150 << 20, process_source="s"), "larger"),
        (Memory(process_peak=100 << 20, process_source="s"), Memory(process_peak=101 << 20, process_source="s"), "same"),
        (Memory(device_peak=8, device_source="d"), Memory(device_peak=4, device_source="d"), "smaller"),
        (Memory(process_peak=100, process_source="s", process_shared=True), Memory(process_peak=200, process_source="s"), ""),
        (Memory(device_peak=8, device_source="d"), Memory(device_peak=4, device_source="another"), ""),
    ],
)
def test_peaks_of_one_kind_are_compared(before, after, verdict):
    """One pass a run is enough: a peak hardly varies."""
    sides = [launches(make_cell(), 1e6), launches(make_cell(), 1e6, seed=1)]
    for records, memory in zip(sides, (before, after), strict=True):
        records[0] = msgspec.structs.replace(records[0], measurement=msgspec.structs.replace(records[0].measurement, memory=memory))
    (change,) = compare(recorded(sides[0], "a"), recorded(sides[1], "b")).changes
    assert change.memory_verdict == verdict
    assert ("larger" in change.outcomes()) == (verdict == "larger")


def test_a_machine_that_was_slower_itself_is_no_regression():
    """All times grew by a fifth, and so did the fixed product that stands beside them."""
    sides = []
    for ns, sentinel in ((1e6, 200_000), (1.2e6, 240_000)):
        records = launches(make_cell(), ns, sentinel_size=256, sentinel_before_ns=sentinel, sentinel_after_ns=sentinel)
        sides.append(recorded(records, f"at{sentinel}"))
    assert list(verdicts(compare(*sides)).values()) == ["unsure"]
    faster_then = [sides[0], recorded(launches(make_cell(), 1.2e6, sentinel_size=128, sentinel_before_ns=210_000), "b")]
    assert list(verdicts(compare(*faster_then)).values()) == ["unsure"], "so much slower that the product had to be a smaller one"
    unknown = [recorded(launches(make_cell(), ns), name) for ns, name in ((1e6, "c"), (1.2e6, "d"))]
    assert list(verdicts(compare(*unknown)).values()) == ["slower"]


def test_turns_are_held_against_their_neighbours():
    """The machine slows down to a third half-way through, sooner for one side's samples than for the other's."""
    turns = [5] * 8
    slow_from = {"base": 4, "candidate": 4}
    cell = make_cell()
    records = {}
    for side, factor in (("base", 1.0), ("candidate", 1.1)):
        spans = [1000.0 * factor * (3 if turn >= slow_from[side] else 1) for turn in range(8) for _ in range(5)]
        records[side] = [timed(cell, launch, spans, turns=turns) for launch in range(8)]
    (found,) = of_pairs([(Summary(records["base"]), Summary(records["candidate"]))])
    assert found.contrast.point == pytest.approx(math.log(1.1), abs=1e-3)
    assert found.share == found.least == pytest.approx(2 / 256)


def test_what_was_measured_in_turn_is_compared_pair_by_pair():
    """Launches that scatter by a half, each beside one that is slower by 5 %."""
    rng = np.random.default_rng(0)
    levels = 1e6 * np.exp(rng.normal(0, 0.5, 10))
    base = [timed(make_cell(), launch, [ns]) for launch, ns in enumerate(levels)]
    candidate = [timed(make_cell(), launch, [1.05 * ns * rng.normal(1, 0.005)]) for launch, ns in enumerate(levels)]
    plain = compare(recorded(base, "a"), recorded(candidate, "b"))
    beside = compare(recorded(base, "a", beside="b"), recorded(candidate, "b", beside="a"))
    assert list(verdicts(plain).values()) == ["unsure"]
    assert list(verdicts(beside).values()) == ["slower"]


HOSTILE = make_cell(backend='x"><script>alert(1)</script>', size=1)


def shown():
    base = launches(make_cell(size=2), 1e6) + launches(HOSTILE, 1e6)
    after = launches(make_cell(size=2), 1.5e6) + launches(HOSTILE, 1e6, seed=1)
    return compare(recorded(base, "a", label="<b>x</b> | `y`"), recorded(after, "b"))


def test_the_table_holds_ratio_interval_and_verdict_and_every_text_is_escaped(tmp_path):
    found = shown()
    path = tmp_path / "out.md"
    with path.open("w") as file:
        printers.print_markdown(comparison_report.report(found, naming), file)
    text = path.read_text()
    (row,) = [line for line in text.splitlines() if "SLOWER" in line]
    assert "1.5" in row
    assert "1.50 ms" in row
    assert "<script>" not in text
    assert "<b>" not in text


def test_the_data_are_strict_json_with_nulls_where_nothing_is_known():
    single = compare(recorded(launches(make_cell(), 1e6, count=1), "a"), recorded(launches(make_cell(), 2e6, count=1), "b"))
    document = json.loads(msgspec.json.encode(comparison_report.data(single, naming)), parse_constant=pytest.fail)
    (cell,) = document["cells"]
    assert cell["time"] == {"verdict": "unsure", "ratio": pytest.approx(2, rel=0.1), "low": None, "high": None}
    assert cell["launches"] == [1, 1]


def test_annotations_are_one_line_each_and_errors_where_they_fail():
    found = shown()
    (error,) = comparison_report.github_annotations(found.changes, naming, frozenset({"slower"}))
    assert error.startswith("::error title=metalbench::w size 2")
    (warning,) = comparison_report.github_annotations(found.changes, naming, frozenset())
    assert warning.startswith("::warning ")
    assert "\n" not in warning
