"""What a device was measured to do at most, and how near to that a cell comes: by hand-made records whose answer is plain arithmetic."""

import pytest
from support.records import make_cell, make_run, timed

from metalbench.results.peaks import Peaks, fraction, peaks
from metalbench.results.summary import Summary
from metalbench.results.tables import report

TORCH = ("torch-cpu", "current")


def cell(workload, dtype="float32", backend="torch-cpu", **case):
    return make_cell(backend, variant="native", workload=workload, case={"dtype": dtype, **case})


def copy(ns=1e6, size=1000, backend="torch-cpu", **changes):
    """A copy of ``size`` float32: 8·size bytes."""
    return timed(cell("roofline", backend=backend, kind="copy", size=size), 0, [ns], flops=0, bytes=8 * size, **changes)


def product(ns=1e6, size=100, dtype="float32", backend="torch-cpu", **changes):
    found = cell("roofline", dtype, backend, kind="matmul", size=size)
    return timed(found, 0, [ns], flops=2 * size**3, bytes=12 * size**2, **changes)


def work(ns, flops, traffic, dtype="float32", backend="torch-cpu", **changes):
    return timed(cell("w", dtype, backend, size=1), 0, [ns], flops=flops, bytes=traffic, **changes)


def found(*records):
    return peaks([Summary([record]) for record in records])


def test_peaks_are_the_fastest_copy_and_the_fastest_product_in_each_dtype():
    measured = found(
        copy(1e6, 1000),  # 8 MB/s
        copy(3e6, 6000),  # slower by the clock and faster by the byte: 16 MB/s
        copy(2e6, 1000),
        product(1e6, 100),  # 2 GFLOP/s
        product(4e6, 200),  # 4 GFLOP/s
        product(9e6, 200),
        product(1e6, 100, "bfloat16"),
        product(2e6, 100, backend="jax-cpu"),
    )
    assert measured[TORCH].bandwidth == pytest.approx(16e6)
    assert measured[TORCH].flops == pytest.approx({"float32": 4e9, "bfloat16": 2e9})
    assert measured["jax-cpu", "current"].bandwidth is None
    assert measured["jax-cpu", "current"].flops == pytest.approx({"float32": 1e9})


def test_wrong_and_absent_answers_are_no_peaks():
    assert found(copy(status="wrong"), product(status="wrong"), copy(backend="jax-cpu", status="oom", spans_ns=[])) == {}
    assert found(work(1e6, 100, 100)) == {}


PEAKS = Peaks(bandwidth=1e9, flops={"float32": 1e10, "float16": 4e10})  # a byte a nanosecond, ten and forty FLOPs


@pytest.mark.parametrize(
    ("record", "share"),
    [
        (work(2000, 10_000, 100), 0.5),  # 1000 ns of arithmetic, 100 of traffic
        (work(2000, 100, 1000), 0.5),  # 10 ns of arithmetic, 1000 of traffic
        (work(2000, 40_000, 100, "float16"), 0.5),  # against the product in its own dtype
        (work(500, 0, 1000), 2.0),  # faster than the copy: from a cache
        (work(2000, 10_000, None), 0.5),
        (work(2000, 100, 1000, "bfloat16"), None),  # no product in bfloat16
        (work(2000, 0, 1000, "bfloat16"), 0.5),  # and none needed
        (work(2000, None, None), None),
        (work(2000, 10_000, 100, status="wrong"), None),
        (work(2000, 10_000, 100, status="oom", spans_ns=[]), None),
        (copy(), None),
        (product(), None),
    ],
)
def test_a_fraction_is_the_slower_of_arithmetic_and_traffic_over_the_median(record, share):
    assert fraction(Summary([record]), PEAKS) == (share if share is None else pytest.approx(share))


def test_a_cell_with_traffic_needs_a_copy():
    products_only = PEAKS._replace(bandwidth=None)
    assert fraction(Summary([work(2000, 10_000, 100)]), products_only) is None
    assert fraction(Summary([work(2000, 10_000, 0)]), products_only) == pytest.approx(0.5)


def test_a_case_without_a_dtype_has_no_arithmetic_peak():
    record = timed(make_cell(case={"size": 1}), 0, [2000], flops=10_000, bytes=100)
    assert fraction(Summary([record]), PEAKS) is None


def shown(*records):
    run = make_run([record.cell for record in records])
    made = report(run, records, lambda cell: str(cell.case.get("kind", cell.workload)))
    fields = {
        (table.title, str(row[0][0][0])): [str(quantity) for line in row[1] for quantity in line]
        for table in made.tables[:2]
        for row in table.rows
    }
    return fields, made.legend


def test_tables_show_the_fraction_beside_the_rates_and_say_what_it_is():
    fields, legend = shown(work(4000, 100, 1000), copy(8000), product(8000))  # the copy: a byte a nanosecond
    assert "25 % of peak" in fields["w", "w"]
    assert "% of peak: the least time" in legend
    assert not any("peak" in words for field in (fields["roofline", "copy"], fields["roofline", "matmul"]) for words in field)


def test_a_copy_shows_a_bandwidth_and_no_arithmetic():
    fields, _ = shown(copy(8000))
    assert "1.00 GB/s" in fields["roofline", "copy"]
    assert not any("FLOP/s" in words for words in fields["roofline", "copy"])


def test_a_run_without_roofline_speaks_of_no_peak():
    fields, legend = shown(work(4000, 100, 1000))
    assert not any("peak" in words for words in fields["w", "w"])
    assert "peak" not in legend


@pytest.mark.parametrize(
    ("ns", "words"), [(1000, "100 % of peak"), (500, "200 % of peak"), (30_000, "3.3 % of peak"), (2_000_000, "0.05 % of peak")]
)
def test_small_fractions_keep_two_digits(ns, words):
    fields, _ = shown(work(ns, 0, 1000), copy(8000))
    assert words in fields["w", "w"]
