"""Charts: the figures in a specification are those of the records, and every specification can be drawn, whatever the records say."""

import functools
import importlib
import itertools
import json
import pkgutil
import re
import statistics
import xml.etree.ElementTree as ET

import altair
import msgspec
import numpy as np
import pytest
import scipy.stats
from support.records import make_cell, make_run, timed

from metalbench.results import charts
from metalbench.results.charts import distribution, heatmap, history, intervals, kinds, roofline, scaling, sequence, style
from metalbench.results.charts.render import VEGA_LITE, render
from metalbench.results.comparison import compare
from metalbench.results.history import History, Point
from metalbench.results.peaks import Peaks
from metalbench.results.summary import Summary, summarise

HOSTILE = 'x"><script>alert(1)</script>\x1b[31m\x00 & ]]> {{ 7 }}'


def naming(cell):
    return " ".join(f"{name}={value}" for name, value in cell.case.items())


def summary(cell, *launches, **changes):
    return Summary([timed(cell, number, samples, **changes) for number, samples in enumerate(launches)])


def cells(*summaries):
    """As a run has them, which is what names their columns."""
    run = make_run([one.cell for one in summaries])
    return summarise(run, [record for one in summaries for record in one.records])


def data(figure, name):
    return figure.spec["datasets"][name]


def variable(figure, name):
    return next(param["value"] for param in figure.spec["params"] if param["name"] == name)


def sized(ns, backend="torch-cpu", variant="fused", workload="w", flops=100, traffic=50, launches=3, status="ok", default=False, **case):
    cell = make_cell(backend, variant, workload=workload, case=case)
    samples = [[ns * (1 + number / 100)] for number in range(launches)]
    return summary(cell, *samples, flops=flops, bytes=traffic, status=status, default_variant=default)


# The samples of a cell


def test_a_distribution_has_each_launch_s_median_and_the_interval_over_them():
    launches = [[1.0e6, 1.2e6, 1.1e6], [1.3e6, 1.3e6, 1.6e6], [1.2e6, 1.1e6, 1.9e6]]
    figure = distribution.figure(summary(make_cell(), *launches))
    medians = [statistics.median(samples) for samples in launches]
    assert [(row["launch"], row["median"]) for row in data(figure, "launches")] == [(0, 1.1), (1, 1.3), (2, 1.2)]
    logs = np.log(medians)
    low, high = np.exp(scipy.stats.t.interval(0.95, 2, loc=logs.mean(), scale=scipy.stats.sem(logs))) / 1e6
    (overall,) = data(figure, "overall")
    assert overall == {"t": 1.2, "low": pytest.approx(low, rel=1e-4), "high": pytest.approx(high, rel=1e-4)}
    assert [sorted(row["t"]) for row in data(figure, "launches")] == [sorted(ns / 1e6 for ns in samples) for samples in launches]
    assert "9 samples of 3 launches" in figure.description
    assert "drawn" not in figure.title


def test_many_samples_are_thinned_from_the_least_to_the_greatest_and_the_title_says_so():
    samples = list(np.random.default_rng(0).permutation(np.arange(2000, 5001)))
    figure = distribution.figure(summary(make_cell(), samples))
    ((drawn,),) = [[row["t"] for row in data(figure, "launches")]]
    assert (min(drawn), max(drawn), len(drawn)) == (2.0, 5.0, 200)
    assert np.quantile(drawn, [0.25, 0.5, 0.75]) == pytest.approx([2.75, 3.5, 4.25], rel=0.01)
    assert "at most 200 drawn of each launch" in figure.title
    whole = sequence.figure(summary(make_cell(), samples))
    ((numbers, times),) = [(row["n"], row["t"]) for row in data(whole, "samples")]
    assert 100 < len(numbers) <= 200
    assert times == [samples[number - 1] / 1000 for number in numbers]
    assert "at most 200 drawn of each launch" in whole.title


def test_a_sample_that_is_far_out_stands_at_the_edge_and_is_counted():
    steady = [1000 + number for number in range(100)]
    found = summary(make_cell(), steady, [*steady[:50], 90_000, *steady[50:]])
    for figure in (distribution.figure(found), sequence.figure(found)):
        low, high = variable(figure, "ends")
        assert low < 1.0
        assert 1.099 < high < 2
        assert "1 beyond the edge, up to 90.0 µs" in figure.title
        assert "1 beyond the edge, up to 90.0 µs" in figure.description
    (mark,) = data(distribution.figure(found), "beyond")
    assert (mark["launch"], mark["what"]) == (1, "1 beyond, up to 90.0 µs")
    (mark,) = data(sequence.figure(found), "beyond")
    assert (mark["launch"], mark["n"], mark["t"]) == (1, 51, 90.0)
    assert not any(90.0 in row["t"] for name in ("samples",) for row in data(sequence.figure(found), name))
    bimodal = summary(make_cell(), [1000] * 50 + [3000] * 50)
    assert data(distribution.figure(bimodal), "beyond") == [], "two modes are no outliers"


def test_a_sequence_keeps_the_order_within_and_of_launches():
    figure = sequence.figure(summary(make_cell(), [3e6, 2e6, 1e6], [5e6, 4e6]))
    rows = data(figure, "samples")
    assert [(row["launch"], row["left"], row["count"], row["n"], row["t"]) for row in rows] == [
        (0, 0, 3, [1, 2, 3], [3.0, 2.0, 1.0]),
        (1, 1, 2, [1, 2], [5.0, 4.0]),
    ]
    assert [(row["left"], row["right"], row["median"]) for row in data(figure, "launches")] == [(0, 1, 2.0), (1, 2, 4.5)]
    assert variable(figure, "count") == 2


@pytest.mark.parametrize(
    ("ns", "unit", "shown"), [(1.5e9, "s", 1.5), (1.5e6, "ms", 1.5), (1500, "µs", 1.5), (150, "ns", 150), (999_900, "ms", 0.9999)]
)
def test_times_are_in_the_unit_that_tables_would_take(ns, unit, shown):
    figure = distribution.figure(summary(make_cell(), [ns]))
    assert data(figure, "launches")[0]["t"] == [shown]
    assert f"time of a call, {unit}" in json.dumps(figure.spec, ensure_ascii=False)


def test_times_that_hardly_differ_have_an_axis_that_holds_them():
    low, high = variable(distribution.figure(summary(make_cell(), [10**9, 10**9 + 1, 10**9 + 2])), "ends")
    assert low < 1.0
    assert high > 1.000000002


def test_a_launch_that_failed_is_no_line_of_its_own():
    records = [timed(make_cell(), 0, [1000]), timed(make_cell(), 1, [], status="oom"), timed(make_cell(), 2, [3000])]
    assert [row["launch"] for row in data(distribution.figure(Summary(records)), "launches")] == [0, 2]


def test_one_figure_is_not_changed_by_the_next():
    first = distribution.figure(summary(make_cell(), [1000, 2000]))
    before = json.dumps(first.spec)
    second = distribution.figure(summary(make_cell(), [3000, 4000], [3500]))
    assert json.dumps(first.spec) == before
    assert first.spec["datasets"] != second.spec["datasets"]


# Scaling


def test_a_family_has_a_line_a_column_and_variant_over_the_one_parameter_that_varies():
    found = cells(
        *(sized(size * 1e3, "torch-cpu", size=size, kind="real", batch=2) for size in (10, 100, 1000)),
        *(sized(size * 2e3, "jax-cpu", variant, size=size, kind="real", batch=2) for size in (10, 100) for variant in ("a", "b")),
        sized(5e6, size=10, kind="complex", batch=2),
    )
    (figure,) = scaling.figures(found, naming)
    assert figure.title == "w: time of a call by size; kind=real, batch=2"
    assert figure.name == "scaling-w-real"
    rows = data(figure, "right")
    assert [(row["size"], row["time"]) for row in rows if row["column"] == "torch-cpu"] == [(10, 10_100), (100, 101_000), (1000, 1_010_000)]
    assert {(row["column"], row["variant"]) for row in rows} == {("torch-cpu", "fused"), ("jax-cpu", "a"), ("jax-cpu", "b")}
    for row, one in zip(rows, found, strict=False):
        assert (row["low"], row["high"]) == (pytest.approx(one.time.low, rel=1e-4), pytest.approx(one.time.high, rel=1e-4))
    assert data(figure, "doubtful") == []


@pytest.mark.parametrize(
    ("cases", "title", "places"),
    [
        ([{"queries": 8, "keys": 8}, {"queries": 16, "keys": 16}], "queries = keys", [8, 16]),
        ([{"queries": 8, "keys": 8}, {"queries": 1, "keys": 64}], "FLOPs a call", [1000, 2000]),
    ],
)
def test_where_several_vary_it_is_their_common_number_or_the_work(cases, title, places):
    found = cells(*(sized(1e6 * n, flops=1000 * n, **case) for n, case in enumerate(cases, start=1)))
    (figure,) = scaling.figures(found, naming)
    assert figure.title == f"w: time of a call by {title}"
    assert [row["size"] for row in data(figure, "right")] == places


def test_without_flops_it_is_bytes_and_without_either_there_is_no_chart():
    cases = [{"m": 1, "n": 5}, {"m": 2, "n": 7}]
    bytes_only = cells(*(sized(1e6, flops=0, traffic=10 * (place + 1), **case) for place, case in enumerate(cases)))
    assert [row["size"] for row in data(scaling.figures(bytes_only, naming)[0], "right")] == [10, 20]
    assert scaling.figures(cells(*(sized(1e6, flops=None, traffic=None, **case) for case in cases)), naming) == []


def test_wrong_answers_are_on_no_line_and_make_no_chart():
    right = [sized(1e6, "jax-cpu", size=size) for size in (1, 2)]
    wrong = [sized(1e5, "torch-cpu", size=size, status="wrong") for size in (1, 2)]
    (figure,) = scaling.figures(cells(*right, *wrong), naming)
    assert {row["column"] for row in data(figure, "right")} == {"jax-cpu"}
    assert {(row["column"], row["status"]) for row in data(figure, "doubtful")} == {("torch-cpu", "wrong")}
    assert "hollow" in figure.title
    assert scaling.figures(cells(*wrong), naming) == []
    assert scaling.figures(cells(right[0], sized(1e6, "torch-cpu", size=2)), naming) == [], "one size of each is no growth"


def test_a_column_has_its_colour_in_every_chart_of_a_page():
    found = cells(
        *(sized(1e6, backend, size=size) for backend in ("a", "b", "c") for size in (1, 2)),
        *(sized(1e6, "c", "v", size=size, on=True) for size in (1, 2)),
    )
    every, alone = scaling.figures(found, naming)
    scales = [figure.spec["layer"][0]["encoding"]["color"] for figure in (every, alone)]
    assert [scale["scale"]["domain"] for scale in scales] == [["a", "b", "c"]] * 2
    assert [scale["legend"]["values"] for scale in scales] == [["a", "b", "c"], ["c"]]


# Roofline

COLUMN = ("torch-cpu", "current")


def test_points_are_flops_a_byte_against_flops_a_second_under_the_roofs():
    found = cells(
        sized(2000, flops=10_000, traffic=100, size=1, dtype="float32"),
        sized(4000, flops=1000, traffic=1000, size=2, dtype="float32", status="wrong"),
        sized(1000, flops=0, traffic=1000, size=3, dtype="float32"),
        sized(1000, flops=1000, traffic=None, size=4, dtype="float32"),
        sized(1000, workload="roofline", flops=1000, traffic=10, kind="matmul", dtype="float32"),
    )
    figure = roofline.figure(found, naming, {COLUMN: Peaks(bandwidth=1e9, flops={"float32": 1e10})})
    (point,) = data(figure, "right")
    assert (point["intensity"], point["speed"]) == (100, pytest.approx(1e4 / 2020e-9, rel=1e-4))
    assert point["share"] == "50%"
    (wrong,) = data(figure, "doubtful")
    assert (wrong["intensity"], wrong["share"]) == (1, "–")
    left, ridge, right = data(figure, "roofs")
    assert left["intensity"] <= 1
    assert left["speed"] == pytest.approx(1e9 * left["intensity"])
    assert (ridge["intensity"], ridge["speed"]) == (10, 1e10)
    assert right["intensity"] >= 100
    assert right["speed"] == 1e10
    assert "2 cells; 2 without FLOPs, bytes or a time are left out" in figure.description
    assert "torch-cpu float32: 10.0 GFLOP/s, 1.00 GB/s" in figure.description


def test_roofs_need_no_copy_and_points_no_roofs():
    found = cells(sized(2000, flops=10_000, traffic=100, size=1))
    level = roofline.figure(found, naming, {COLUMN: Peaks(bandwidth=None, flops={"float32": 1e10})})
    assert {row["speed"] for row in data(level, "roofs")} == {1e10}
    bare = roofline.figure(found, naming, {})
    assert data(bare, "roofs") == []
    assert len(data(bare, "right")) == 1
    assert "none was measured" in bare.description


def test_crowded_labels_are_thinned_and_the_points_are_not():
    crowd = cells(
        *(sized(2000 + size, flops=10_000, traffic=100, size=size) for size in range(30)), sized(9e6, flops=10_000, traffic=1e6, size=99)
    )
    figure = roofline.figure(crowd, naming, {})
    labels = [row["label"] for row in data(figure, "labels")]
    assert labels[0] == "w size=0", "the fastest first"
    assert "w size=99" in labels
    assert len(labels) < 5
    assert len(data(figure, "right")) == 31


# History


def series(times, **statuses):
    points = []
    for number, ns in enumerate(times):
        status = statuses.get(f"run{number}", "ok")
        facts = {"torch": "2.14" if number >= 12 else "2.13"}
        medians = [ns * 0.999, ns, ns * 1.001]
        points.append(
            Point(
                run=f"run{number}",
                started=1e9 + 86400 * number,
                host="h",
                medians=medians,
                status=status,
                revision=f"c{number}",
                facts=facts,
            )
        )
    return History(make_cell(), points)


def steps(count=24):
    rng = np.random.default_rng(0)
    return [(1.2e6 if number >= 12 else 1e6) * rng.normal(1, 0.002) for number in range(count)]


def test_a_history_has_a_point_a_run_and_a_level_between_changes():
    times = steps()
    figure = history.figure(series(times, run3="wrong"), naming)
    counted = [number for number in range(24) if number != 3]
    assert [(row["n"], row["t"]) for row in data(figure, "runs")] == [
        (number, pytest.approx(times[number] / 1e6, rel=1e-4)) for number in counted
    ]
    (doubtful,) = data(figure, "doubtful")
    assert (doubtful["n"], doubtful["status"], doubtful["run"]) == (3, "wrong", "run3")
    before, after = data(figure, "levels")
    assert (before["n"], before["to"], after["n"], after["to"]) == (-0.5, 11.5, 11.5, 23.5)
    assert before["t"] == pytest.approx(statistics.median(times[number] for number in range(12) if number != 3) / 1e6, rel=1e-4)
    assert after["t"] == pytest.approx(statistics.median(times[12:]) / 1e6, rel=1e-4)
    (change,) = data(figure, "changes")
    assert (change["n"], change["direction"], change["state"]) == (11.5, "slower", "confirmed")
    assert change["label"] == f"+{100 * (after['t'] / before['t'] - 1):.1f} %"
    assert change["versions"] == "torch 2.13 → 2.14"
    assert change["revision"] == "c11 → c12"
    assert variable(figure, "days")[:2] == ["2001-09-09", "2001-09-10"]
    assert "23 of 24 runs" in figure.description


def test_a_suspect_is_no_level():
    times = [*steps(12), 0.7e6]
    figure = history.figure(series(times), naming)
    (level,) = data(figure, "levels")
    assert (level["n"], level["to"]) == (-0.5, 11.5)
    (change,) = data(figure, "changes")
    assert change["state"] == "unconfirmed"
    assert re.fullmatch(r"\N{MINUS SIGN}(29|30|31)\.\d %, unconfirmed", change["label"])


def test_noise_looks_like_noise():
    low, high = variable(history.figure(series([1e6, 1.0001e6, 1e6]), naming), "ends")
    assert high / low == pytest.approx(1.1, rel=0.02)


# Comparison


def compared(ratios, count=8, threshold=0.03):
    sides = []
    for name, factor in (("a", lambda _: 1.0), ("b", lambda place: ratios[place])):
        records = []
        for place in range(len(ratios)):
            rng = np.random.default_rng([place, name == "b"])
            records += [timed(make_cell(size=place), launch, [1e6 * factor(place) * rng.normal(1, 0.003)] * 3) for launch in range(count)]
        run = make_run(list({record.cell.key(): record.cell for record in records}.values()), name=name, launches=count)
        sides.append((run, records))
    return compare(*sides, threshold=threshold)


def test_intervals_are_those_of_the_verdicts_the_worst_first():
    found = compared([0.8, 1.0, 1.5])
    figure = intervals.figure(found, naming)
    rows = data(figure, "cells")
    assert [(row["cell"], row["verdict"]) for row in rows] == [
        ("w size=2 · torch-cpu · fused", "slower"),
        ("w size=1 · torch-cpu · fused", "same"),
        ("w size=0 · torch-cpu · fused", "faster"),
    ]
    for row, change in zip(rows, found.changes, strict=True):
        assert (row["low"], row["ratio"], row["high"]) == pytest.approx((change.time.low, change.time.ratio, change.time.high), rel=1e-4)
    assert [row["ratio"] for row in rows] == pytest.approx([1.5, 1.0, 0.8], rel=0.01)
    assert data(figure, "band") == [{"from": pytest.approx(1 / 1.03, rel=1e-4), "to": 1.03}]
    assert "3 cells: 1 slower, 1 faster, 1 same, 0 unsure" in figure.description


def test_the_picture_of_a_comparison_draws_every_interval_on_its_side_of_1():
    found = compared([0.8, 1.0, 1.5])
    drawn = ET.fromstring(render(intervals.figure(found, naming), "svg"))
    marks = [element for element in drawn.iter() if element.get("aria-roledescription") in {"point", "rule mark"}]
    one, *rest = [(mark.get("aria-label"), float(re.match(r"translate\(([-\d.e]+)", mark.get("transform"))[1]), mark) for mark in marks]
    assert one[0] == "time, candidate to base: 1"
    bars = {label.split("cell: ")[1].split(";")[0]: (x, x + float(mark.get("x2"))) for label, x, mark in rest if mark.get("x2")}
    points = {label.split("cell: ")[1].split(";")[0]: x for label, x, mark in rest if not mark.get("x2")}
    assert len(bars) == len(points) == 3
    for change in found.changes:
        name = f"w {naming(change.candidate.cell)} · torch-cpu · fused"
        assert bars[name][0] <= points[name] <= bars[name][1]
        assert (points[name] > one[1]) == (change.time.ratio > 1)


def test_a_single_launch_has_an_interval_to_the_ends_of_the_axis():
    (row,) = data(intervals.figure(compared([2.0], count=1), naming), "cells")
    assert row["verdict"] == "unsure"
    assert 0.1 < row["low"] < 1 / row["ratio"] < row["ratio"] < row["high"] < 10
    assert row["told"] == f"{row['ratio']:.3f}×"


def test_more_cells_than_a_picture_holds_are_counted():
    figure = intervals.figure(compared([1 + place / 100 for place in range(43)], count=2), naming)
    assert len(data(figure, "cells")) == 40
    assert "3 more cells are left out" in figure.title


# Heatmap


def test_ratios_are_to_the_best_right_answer_by_each_backend_s_own_choice():
    found = cells(
        sized(3e6, "a", "slow", size=1, default=True),
        sized(1e6, "a", "fast", size=1),
        sized(2e6, "b", size=1),
        sized(1e5, "c", size=1, status="wrong"),
        sized(1e6, "a", size=2),
        Summary([timed(make_cell("b", size=2), 0, [], status="oom")]),
    )
    figure = heatmap.figure(found, naming)
    shown = {(row["case"], row["column"]): row["shown"] for row in data(figure, "fields")}
    assert shown == {
        ("w size=1", "a"): "1.50×",
        ("w size=1", "b"): "1.00×",
        ("w size=1", "c"): "wrong",
        ("w size=2", "a"): "1.00×",
        ("w size=2", "b"): "oom",
    }
    against = heatmap.figure(found, naming, "a")
    assert [row["shown"] for row in data(against, "fields")] == ["1.00×", "0.67×", "wrong", "1.00×", "oom"]
    assert [row["shade"] for row in data(against, "fields")] == [0, pytest.approx(np.log2(2 / 3), abs=1e-3), None, 0, None]


# All of them


@functools.cache
def figures(word="torch-cpu"):
    """One of each kind, about cells that are called ``word`` wherever a record has room for a text."""
    backends = (word, f"{word} 2")
    found = cells(
        *(
            sized(1e6 * size, backend, word, workload=word, flops=size * 1000, traffic=size * 10, size=size, dtype=word, launches=2)
            for backend in backends
            for size in (1, 2)
        ),
        sized(1e6, word, f"{word} other", workload=word, size=1, dtype=word, status="fallback"),
    )
    points = [
        msgspec.structs.replace(point, run=f"{word} {point.run}", revision=word, facts={word: point.facts["torch"]})
        for point in series(steps(), run3="wrong").points
    ]
    compared_ = compared([1.3, 1.0])
    renamed = [
        change._replace(
            candidate=Summary(
                [
                    msgspec.structs.replace(record, cell=make_cell(word, word, workload=word, case={word: word}))
                    for record in change.candidate.records
                ]
            )
        )
        for change in compared_.changes
    ]
    peaks = {(backend, "current"): Peaks(bandwidth=1e9, flops={word: 1e10}) for backend in backends}
    return {
        "distribution": distribution.figure(found[0]),
        "sequence": sequence.figure(found[0]),
        "scaling": scaling.figures(found, naming)[0],
        "roofline": roofline.figure(found, naming, peaks),
        "history": history.figure(History(make_cell(word, word, workload=word), points), naming),
        "intervals": intervals.figure(compared_._replace(changes=renamed), naming),
        "heatmap": heatmap.figure(found, naming),
    }


def test_every_chart_has_a_name_to_ask_for_it_by():
    modules = [importlib.import_module(f"{charts.__name__}.{module.name}") for module in pkgutil.iter_modules(charts.__path__)]
    drawing = {module.__name__.rpartition(".")[2] for module in modules if hasattr(module, "figure") or hasattr(module, "figures")}
    assert set(kinds.NAMES) == drawing == set(figures())


@pytest.mark.parametrize("name", kinds.NAMES)
def test_every_specification_is_one_that_vega_draws(name):
    figure = figures()[name]
    altair.Chart.from_dict(figure.spec)  # by the rules of its release
    assert figure.spec["width"] == "container"
    drawn = [element for element in ET.fromstring(render(figure, "svg")).iter() if len(element)]
    for number, layer in enumerate(figure.spec["layer"]):
        rows = data(figure, layer.get("data", figure.spec.get("data"))["name"])
        if rows and not any("filter" in step for step in layer.get("transform", [])):
            marks = f"{layer.get('name', f'layer_{number}')}_"
            assert any(marks in element.get("class", "") for element in drawn), "what is in the data is in the picture"
    assert render(figure, "png").startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize("name", kinds.NAMES)
def test_records_hold_no_markup_and_no_control_characters(name):
    figure = figures(HOSTILE)[name]
    text = render(figure, "svg").decode()
    elements = {element.tag.rpartition("}")[2] for element in ET.fromstring(text).iter()}
    assert elements <= {"svg", "g", "path", "rect", "text", "tspan", "line", "defs", "clipPath", "linearGradient", "stop", "title"}
    assert "\x1b" not in json.dumps(figure.spec, ensure_ascii=False)
    assert "\\u0000" not in json.dumps(figure.spec)
    assert re.fullmatch(r"[a-z0-9-]+", figure.name)
    if name not in {"distribution", "sequence"}:  # which name no cell
        assert "alert(1)" in text


@pytest.mark.parametrize(
    "figure",
    [
        roofline.figure([], naming, {}),
        history.figure(History(make_cell(), []), naming),
        intervals.figure(compared([1.0])._replace(changes=[]), naming),
        heatmap.figure([], naming),
    ],
)
def test_a_chart_of_nothing_can_be_drawn(figure):
    ET.fromstring(render(figure, "svg"))


def test_the_release_of_vega_lite_is_altair_s():
    assert altair.SCHEMA_VERSION.removeprefix("v").startswith(f"{VEGA_LITE}.")


#: How people without one kind of cone see linear RGB (Machado, Oliveira and Fernandes, IEEE TVCG 15, 2009).
SIGHT = {
    "common": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


def seen(colour, sight):
    """CIE L*a*b* of a colour as somebody sees it; 2.3 apart is just noticeable."""
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255
    ]
    relative = (XYZ @ np.clip(np.asarray(SIGHT[sight]) @ linear, 0, 1)) / [0.9505, 1, 1.089]
    x, y, z = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("config", [style.LIGHT, style.DARK])
def test_colours_can_be_told_apart_by_everybody(config, sight):
    for one, other in itertools.combinations(config["range"]["category"], 2):
        assert np.linalg.norm(seen(one, sight) - seen(other, sight)) > 15, (one, other)
    for one, other in itertools.combinations({colour for colour, _ in style.VERDICTS.values()}, 2):
        assert np.linalg.norm(seen(one, sight) - seen(other, sight)) > 20, (one, other)


def test_verdicts_and_columns_are_told_by_shape_too():
    assert len({shape for _, shape in style.VERDICTS.values()}) == len(style.VERDICTS)
    _, shape = style.by_column([str(number) for number in range(12)], [])
    marks = shape.to_dict()["scale"]["range"]
    assert len(set(zip(marks, itertools.cycle(style.LIGHT["range"]["category"])))) == 12
