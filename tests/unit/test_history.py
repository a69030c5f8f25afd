"""A cell's history: at which run its level changed, what else changed there, and what is only a suspicion."""

import io
import json

import msgspec
import numpy as np
import pytest

from metalbench.results import printers
from metalbench.results.history import History, Point, document, report, sparkline
from metalbench.results.record import Cell

CELL = Cell(
    workload="fft", version=1, case={"n": 8}, backend="torch-cpu", environment="current", variant="fused", protocol="latency", policy="f32"
)  # fmt: skip


def history(*levels, seed=0, **changes):
    """One run a point at ``levels`` µs, with noise of 2 %; ``changes`` are fields of points: name → {index: value}."""
    rng = np.random.default_rng(seed)
    points = []
    for index, level in enumerate(levels):
        medians = [float(1e3 * level * factor) for factor in np.exp(rng.normal(0, 0.02) + rng.normal(0, 0.002, 3))]
        fields = {name: values[index] for name, values in changes.items() if index in values}
        facts = {"torch": "2.12.1" if index < 20 else "2.13.0", "device": "cpu"}
        own = {"run": f"run{index}", "started": 1.7e9 + 86400 * index, "host": "h", "medians": medians, "revision": f"{index:040x}"}
        points.append(Point(**({**own, "facts": facts} | fields)))
    return History(CELL, points)


def test_a_change_names_its_run_revisions_and_versions():
    (change,) = history(*[100] * 20, *[130] * 10).changes
    assert (change.run, change.previous_run, change.state) == ("run20", "run19", "confirmed")
    assert (change.revision_before, change.revision) == (f"{19:040x}", f"{20:040x}")
    assert change.versions == {"torch": ("2.12.1", "2.13.0")}
    assert change.ratio == pytest.approx(1.3, rel=0.03)
    assert change.low < 1.3 < change.high
    assert change.slower


def test_the_level_is_that_of_the_runs_since_the_last_change():
    found = history(*[100] * 20, *[80] * 10)
    assert not found.changes[0].slower
    assert found.level == pytest.approx(80e3, rel=0.02)
    assert history(*[100] * 10).level == pytest.approx(100e3, rel=0.02)
    assert history(100, status={0: "crashed"}).level is None


def test_one_run_outside_is_a_suspect_until_another_confirms_it():
    quiet = history(*[100] * 15)
    assert quiet.suspect is None
    once = history(*[100] * 15, 130)
    assert [(change.run, change.state) for change in once.changes] == [("run15", "unconfirmed")]
    assert once.suspect.ratio == pytest.approx(1.3, rel=0.06)
    assert once.level == pytest.approx(100e3, rel=0.02), "a suspect is not the level yet"
    twice = history(*[100] * 15, 130, 130)
    assert [(change.run, change.state) for change in twice.changes] == [("run15", "confirmed")]
    assert twice.suspect is None
    refuted = history(*[100] * 15, 130, 100)
    assert refuted.changes == []


def test_a_suspect_comes_on_top_of_a_confirmed_change():
    found = history(*[100] * 15, *[120] * 10, 90)
    assert [(change.run, change.state) for change in found.changes] == [("run15", "confirmed"), ("run25", "unconfirmed")]
    assert found.level == pytest.approx(120e3, rel=0.02)


def test_runs_without_a_right_answer_take_no_part():
    bad = {5: "wrong", 18: "crashed", 20: "fallback"}
    levels = [100] * 20 + [130] * 10
    levels[5], levels[20] = 900, 100
    found = history(*levels, status=bad, medians={18: []})
    (change,) = found.changes
    assert (change.run, change.previous_run) == ("run21", "run19")
    line = sparkline(found)
    assert [line[index] for index in bad] == ["·", "·", "·"]
    assert len(line) == 30


def test_points_are_taken_in_the_order_of_time():
    found = history(*[100] * 20, *[130] * 10)
    assert History(CELL, found.points[::-1]).changes == found.changes


@pytest.mark.parametrize("size", range(9))
def test_short_histories_are_no_error(size):
    found = history(*[100] * size)
    assert found.changes == []
    assert len(sparkline(found)) == size
    assert report([found], lambda cell: "n 8").tables[0].rows
    assert document([found])[0]["changes"] == []


def test_noise_looks_like_noise_and_a_step_like_a_step():
    flat = sparkline(history(*[100] * 20, medians={index: [1e5 * (1 + index % 2 / 200)] for index in range(20)}))
    assert len(set(flat)) == 1
    step = sparkline(history(*[100] * 20, *[200] * 20))
    assert set(step[:20]) <= set("▁▂")
    assert set(step[20:]) <= set("▇█")


def shown(printer, *histories):
    out = io.StringIO()
    printer(report(histories, lambda cell: "n 8"), out)
    return out.getvalue()


@pytest.mark.parametrize("printer", [printers.print_text, printers.print_markdown, printers.print_html])
def test_a_report_shows_the_newest_change_first_with_what_changed(printer):
    levels = [100] * 10 + [80] * 10 + [120] * 10 + [150]
    text = " ".join(shown(printer, history(*levels), history(*[100] * 5)).split())
    for words in ("confirmed", "unconfirmed", "run30", "run20", "torch 2.12.1 → 2.13.0", "series"):
        assert words in text
    assert text.index("run30") < text.index("run20") < text.index("run10")
    assert "1 with a change of level" in text
    assert "none" in text


def test_direction_and_size_are_words():
    text = shown(printers.print_markdown, history(*[100] * 20, *[130] * 10), history(*[100] * 20, *[80] * 10))
    assert "% (+" in text
    assert "slower" in text
    assert "faster" in text


def test_a_document_is_json_with_every_point():
    found = history(*[100] * 20, *[130] * 10, status={3: "oom"}, medians={3: []}, revision={20: "a" * 40 + "-dirty"})
    (data,) = json.loads(json.dumps(document([found]), allow_nan=False))
    assert data["cell"] == msgspec.to_builtins(CELL)
    assert data["host"] == "h"
    assert len(data["points"]) == 30
    assert data["points"][3]["median_ns"] is None
    (change,) = data["changes"]
    assert change["revision"] == "a" * 40 + "-dirty"
    assert change["versions"] == {"torch": ["2.12.1", "2.13.0"]}
    assert change["ratio"] == pytest.approx(1.3, rel=0.03)
