"""Store, statistics, summaries and printers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.records import make_cell, make_run, timed

from metalbench.results.quantities import Quantity, format_duration, printable
from metalbench.results.statistics import estimate, tied
from metalbench.results.store import open_store
from metalbench.results.summary import Summary, summarise
from metalbench.results.tables import report


@pytest.mark.parametrize("name", ["mit Leerzeichen.sqlite", "日本語.sqlite", "100%?#&.sqlite", "file:x", "a'b\"c"])
def test_a_plain_path_is_taken_as_it_is(tmp_path, name):
    with open_store(str(tmp_path / "ny mappe" / name)) as store:
        store.begin(make_run([make_cell()]))
    assert (tmp_path / "ny mappe" / name).is_file()


positive = st.floats(1, 1e12)


@given(medians=st.lists(positive, min_size=2, max_size=12))
def test_an_interval_holds_its_median_and_is_student_s(medians):
    found = estimate(medians)
    assert found.low <= found.median <= found.high
    logs = np.log(medians)
    spread = logs.std(ddof=1) / math.sqrt(len(logs))
    if spread > 1e-9:
        low, high = stats.t.interval(0.95, len(logs) - 1, logs.mean(), spread)
        assert found.low == pytest.approx(min(found.median, math.exp(low)), rel=1e-6)
        assert found.high == pytest.approx(max(found.median, math.exp(high)), rel=1e-6)


def test_a_single_launch_has_no_interval_and_no_rivals():
    assert estimate([5.0]) == (5.0, None, None)
    assert tied([5.0], [4.0, 4.1])


@given(ours=st.lists(positive, min_size=2, max_size=8), theirs=st.lists(positive, min_size=2, max_size=8))
def test_ties_are_welch_s(ours, theirs):
    ratio = np.median(ours) / np.median(theirs)
    logs = np.log(ours), np.log(theirs)
    if abs(ratio - 1) < 0.01:
        assert tied(ours, theirs)
    elif min(side.std() for side in logs) > 1e-6:
        p = stats.ttest_ind(*logs, equal_var=False).pvalue
        if abs(p - 0.05) > 1e-6:
            assert tied(ours, theirs) == (p > 0.05)


def test_launches_that_scatter_make_intervals_that_cover_the_truth():
    rng = np.random.default_rng(0)
    hits = sum(low <= 1.0 <= high for _, low, high in (estimate(list(np.exp(rng.normal(0, 0.05, 5)))) for _ in range(2000)))
    assert 0.93 < hits / 2000 < 0.97


def test_a_cell_takes_the_gravest_status_of_its_launches():
    cell = make_cell()
    records = [timed(cell, 0, [5]), timed(cell, 1, [5], status="wrong", reason="off"), timed(cell, 2, [5])]
    summary = Summary(records)
    assert (summary.status, summary.reason, summary.ranked) == ("wrong", "off", False)
    records[2] = timed(cell, 2, [], status="crashed", reason="signal")
    assert Summary(records).status == "crashed"


def marks(records, relative_to=None):
    run = make_run(list({record.cell.key(): record.cell for record in records}.values()))
    shown = report(run, records, lambda cell: f"size {cell.case['size']}", relative_to)
    (row,) = shown.tables[0].rows
    return [[str(quantity) for line in field for quantity in line] for field in row[1:]]


def test_wrong_cells_take_part_in_no_ratio_and_every_tie_is_marked():
    rng = np.random.default_rng(1)

    def launches(backend, ns, **changes):
        return [timed(make_cell(backend), launch, [ns * rng.normal(1, 0.01)] * 3, **changes) for launch in range(5)]

    fields = marks([*launches("a", 1e6), *launches("b", 1.004e6), *launches("c", 2e6), *launches("d", 1e5, status="wrong", max_error=0.5)])
    assert ["★" in "".join(field) for field in fields] == [True, True, False, False]
    assert next(text for text in fields[2] if text.endswith("×"))[:3] in {"1.9", "2.0"}
    assert not any(text.endswith("×") for text in fields[3])
    assert "⚠ wrong" in fields[3]
    relative = marks([*launches("a", 1e6), *launches("c", 2e6)], "c")
    assert next(text for text in relative[0] if text.endswith("×"))[:3] in {"0.5", "0.4"}


def test_a_rate_of_what_a_call_gets_through_stands_beside_the_others():
    """512 tokens in 41.6 ms; and as little as one in 8 s."""
    (fields,) = marks([timed(make_cell(), 0, [41.6e6], amounts={"tokens": 512})])
    assert "12300 tokens/s" in fields
    (slow,) = marks([timed(make_cell(), 0, [8e9], amounts={"tokens": 1})])
    assert "0.12 tokens/s" in slow
    (without,) = marks([timed(make_cell(), 0, [8e9])])
    assert not any("tokens" in text for text in without)


def test_figures_are_told_beside_the_error_and_bytes_as_bytes():
    records = [timed(make_cell(), 0, [1e6], max_error=1e-7, tolerance=1e-6, figures={"skipped_steps": 2.0, "weight_bytes": 557056.0})]
    shown = report(make_run([make_cell()]), records, str)
    (row,) = next(table for table in shown.tables if table.title.startswith("Errors")).rows
    assert [" ".join(map(str, line)) for line in row[1]] == ["1.0e-07 of 1.0e-06", "skipped steps 2", "weight bytes 544 KiB"]


def test_drift_and_the_incredible_are_marked():
    cell = make_cell()
    steady = {"sentinel_before_ns": 100, "sentinel_after_ns": 105}
    drifted = {"sentinel_before_ns": 100, "sentinel_after_ns": 130}
    assert not Summary([timed(cell, 0, [5], **steady), timed(cell, 1, [5], **drifted)]).drifted
    assert Summary([timed(cell, 0, [5], **drifted), timed(cell, 1, [5], **drifted)]).drifted
    assert Summary([timed(cell, 0, [5], empty_call_ns=6.0)]).incredible
    assert not Summary([timed(cell, 0, [7], empty_call_ns=6.0)]).incredible


def test_the_order_is_the_plan_s_and_the_default_variant_leads():
    cells = [make_cell(variant="composed"), make_cell(variant="fused"), make_cell(variant="composed", size=9), make_cell(size=9)]
    records = [timed(cell, 0, [5], default_variant=cell.variant == "fused") for cell in reversed(cells)]
    run = make_run(cells)
    assert [summary.cell for summary in summarise(run, records)] == cells
    main, by_variant = report(run, records, lambda cell: str(cell.case["size"])).tables[:2]
    assert [str(row[1][-1][0]) for row in main.rows] == ["fused", "fused"]
    assert [str(row[1][0][0]) for row in by_variant.rows] == ["composed", "fused"] * 2


@given(st.floats(1e-3, 1e13))
def test_durations_keep_three_digits(ns):
    number, unit = format_duration(ns).split()
    assert float(number) * {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit] == pytest.approx(ns, rel=0.006, abs=0.006)


@given(st.text())
def test_untrusted_text_is_one_printable_line(text):
    assert printable(text).isprintable()


def test_what_is_missing_is_a_dash():
    for hint in ("duration", "bytes", "ratio", "flops", "bandwidth", "error"):
        assert str(Quantity(None, hint)) == "–"


def test_an_estimate_is_in_one_unit():
    assert str(Quantity((658e3, 450e3, 1.06e6), "estimate")) == "658 µs (450 … 1060)"
    assert str(Quantity((2e9, 1.9e9, 2.1e9), "estimate")) == "2.00 s (1.90 … 2.10)"
    assert str(Quantity((2e9, None, None), "estimate")) == "2.00 s"


def test_a_single_launch_crowns_nobody():
    fields = marks([timed(make_cell("a"), 0, [1000]), timed(make_cell("b"), 0, [9000])])
    assert not any("★" in text for field in fields for text in field)
