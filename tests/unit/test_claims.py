"""What the documents claim, judged on records of known times, peaks and figures."""

import msgspec
import numpy as np
import pytest
from support.records import make_cell, make_run, timed

from metalbench.results.claims import check, claims, read
from metalbench.results.claims_report import data, report
from metalbench.results.record import Memory
from metalbench.results.summary import Summary, summarise

SPEED = """
[[claim]]
id = "S1"
source = "somewhere"
says = "fused is twice as fast"
workload = "w"
better = { variant = "fused" }
than = { variant = "composed" }
at_least = 2.0
"""
HALF = """
[[claim]]
id = "S2"
source = "somewhere"
says = "halves"
workload = "w"
better = { case = { dtype = "float16" } }
than = { case = { dtype = "float32" } }
metric = "memory"
at_least = 1.9
"""


def naming(cell):
    return " ".join(map(str, cell.case.values()))


def launches(cell, ns, count=5, spread=0.01, **changes):
    rng = np.random.default_rng(round(ns))
    return [timed(cell, launch, [ns * rng.normal(1, spread)] * 3, **changes) for launch in range(count)]


def judged(text, records):
    cells = list({record.cell.key(): record.cell for record in records}.values())
    return check(read(text), summarise(make_run(cells), records))


def pair(fast, slow, **changes):
    return launches(make_cell(variant="fused"), fast, **changes) + launches(make_cell(variant="composed"), slow, **changes)


@pytest.mark.parametrize(("slow", "verdict"), [(3e6, "holds"), (1.5e6, "does not hold"), (2e6, "can't tell here")])
def test_a_claim_holds_where_the_whole_interval_is_as_large_as_it_says(slow, verdict):
    (found,) = judged(SPEED, pair(1e6, slow, spread=0.02))
    assert (found.verdict, found.column) == (verdict, "torch-cpu")
    assert found.measured == pytest.approx(slow / 1e6, rel=0.05)
    assert found.low < slow / 1e6 < found.high


def test_what_is_missing_wrong_or_alone_can_not_be_told():
    (missing,) = judged(SPEED, launches(make_cell(variant="fused"), 1e6))
    assert (missing.verdict, missing.reason) == ("can't tell here", "not measured: composed")
    wrong = launches(make_cell(variant="composed"), 3e6, status="wrong", reason="off by 2")
    (found,) = judged(SPEED, launches(make_cell(variant="fused"), 1e6) + wrong)
    assert (found.verdict, found.reason) == ("can't tell here", "composed is wrong: off by 2")
    (single,) = judged(SPEED, pair(1e6, 3e6, count=1))
    assert (single.verdict, single.reason) == ("can't tell here", "a single launch has no interval")


def test_sides_are_of_one_column_and_of_one_case():
    records = [
        *pair(1e6, 3e6),
        *launches(make_cell(variant="fused", size=9), 1e6),
        *launches(make_cell(variant="composed", backend="jax-cpu"), 9e6),
    ]
    found = judged(SPEED, records)
    assert [(one.column, one.verdict) for one in found] == [
        ("torch-cpu", "holds"),
        ("torch-cpu", "can't tell here"),
        ("jax-cpu", "can't tell here"),
    ]


def of_dtype(dtype, memory):
    cell = make_cell(case={"size": 8, "dtype": dtype})
    return launches(cell, 1e6, memory=memory, default_variant=True)


@pytest.mark.parametrize(("low", "verdict"), [(50, "holds"), (60, "does not hold")])
def test_memory_is_of_the_device_and_has_no_interval(low, verdict):
    records = [
        record
        for dtype, peak in (("float16", low), ("float32", 100))
        for record in of_dtype(dtype, Memory(device_peak=peak, device_source="d", process_peak=10**9))
    ]
    (found,) = judged(HALF, records)
    assert (found.verdict, found.measured, found.low) == (verdict, 100 / low, None)


@pytest.mark.parametrize("low", [500, 900])
def test_a_process_holds_the_framework_and_its_programs_too_and_proves_nothing(low):
    peaks = (("float16", low), ("float32", 1000))
    (found,) = judged(HALF, [r for dtype, peak in peaks for r in of_dtype(dtype, Memory(process_peak=peak, process_source="s"))])
    assert (found.verdict, found.reason[:23]) == ("can't tell here", "only the process's peak")
    assert found.measured == 1000 / low


def test_a_planted_false_claim_does_not_hold_and_a_ratio_within_bounds_does():
    near = SPEED.replace("at_least = 2.0", "within = 0.05")
    assert judged(near, pair(1e6, 1.01e6))[0].verdict == "holds"
    assert judged(near, pair(1e6, 1.2e6))[0].verdict == "does not hold"
    assert judged(SPEED, pair(3e6, 1e6))[0].verdict == "does not hold"


GROWTH = """
[[claim]]
id = "S3"
source = "somewhere"
says = "quadratic"
workload = "w"
case = { dtype = "float32" }
better = { case = { size = 10 } }
than = { case = { size = 40 } }
over = "size"
at_least = 1.9
"""


@pytest.mark.parametrize(("bound", "verdict"), [("at_least = 1.9", "holds"), ("at_most = 1.9", "does not hold")])
def test_how_a_time_grows_is_an_exponent(bound, verdict):
    sizes = [make_cell(case={"size": size, "dtype": "float32"}) for size in (10, 40)]
    records = [record for cell in sizes for record in launches(cell, 3.0 * cell.case["size"] ** 2, default_variant=True)]
    (found,) = judged(GROWTH.replace("at_least = 1.9", bound), records)
    assert (found.verdict, found.measured) == (verdict, pytest.approx(2.0, abs=0.02))
    assert found.low < 2.0 < found.high
    ((row,),) = (table.rows for table in report([make_run(sizes)], [found], naming).tables)
    documents, said = (str(field[0][0]) for field in row[3:5])
    assert documents == f"{bound[:8].replace('_', ' ').strip()} size^1.9"
    assert said.startswith("size^2")


def test_growth_of_what_is_known_once_has_no_interval_and_of_nothing_is_not_told():
    def found(small, large):
        peaks = {10: small, 40: large}
        records = [
            record
            for size, peak in peaks.items()
            for record in launches(make_cell(case={"size": size, "dtype": "float32"}), 1e6, default_variant=True, figures={"held": peak})
        ]
        return judged(GROWTH.replace("at_least", 'metric = "held"\nat_least'), records)[0]

    assert (found(3.0, 48.0).measured, found(3.0, 48.0).low) == (pytest.approx(2.0), None)
    assert (found(0.0, 48.0).verdict, found(0.0, 48.0).reason) == ("can't tell here", "the held is 0")


@pytest.mark.parametrize("sizes", ["better = { case = { size = 40 } }", "better = { variant = 'fused' }"])
def test_growth_is_from_less_to_more(sizes):
    with pytest.raises(msgspec.ValidationError, match="S3 needs more size"):
        read(GROWTH.replace("better = { case = { size = 10 } }", sizes))


def test_a_claim_needs_a_size_and_no_unknown_word():
    with pytest.raises(msgspec.ValidationError, match="S1 needs one of"):
        read(SPEED.replace("at_least = 2.0", ""))
    with pytest.raises(msgspec.ValidationError):
        read(SPEED + "size = 3\n")


def test_the_documents_claims_are_read_and_each_is_called_differently():
    names = [claim.id for claim in claims()]
    assert len(names) == len(set(names)) > 5


def test_the_report_says_what_was_compared_and_the_data_what_was_found():
    records = pair(1e6, 3e6)
    run = make_run([record.cell for record in records])
    found = judged(SPEED, records)
    (table,) = report([run], found, naming).tables
    (row,) = table.rows
    assert [str(line[0]) for field in row for line in field][1:4] == ["torch-cpu", "fused with composed, 8", "at least 2×"]
    (entry,) = data([run], found)["findings"]
    assert (entry["verdict"], entry["reason"]) == ("holds", None)
    assert entry["measured"] == pytest.approx(Summary(records[5:]).median / Summary(records[:5]).median)
