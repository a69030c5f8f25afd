"""The numbers on the pages are those that the command prints, of the same runs."""

import json
import re
import statistics

import pytest
from support.browsing import COMPARED, KINDS, MAC_CELL, shown
from support.stores import MAC_RUN, NIGHTS, SLOWED, STEP, mac

KEYS = {(own.workload, json.dumps(own.case, sort_keys=True), own.backend, own.variant): own.key() for own in mac()[0].cells()}
NS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}


def printed(store, *arguments):
    result = store(*arguments, "--store", "results.sqlite", "--format", "json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def cells(store):
    """Key → the cell as `bench show` prints it."""
    found = printed(store, "show", MAC_RUN)["cells"]
    return {KEYS[cell["workload"], json.dumps(cell["case"], sort_keys=True), cell["backend"], cell["variant"]]: cell for cell in found}


def test_the_heat_map_has_the_medians_of_all_cells(visit, cells):
    page = visit.open(KINDS["run"])
    squares = page.locator("#heatmap td[data-status]").evaluate_all(
        "(all) => all.map((one) => [one.querySelector('a').getAttribute('href'), one.dataset.ns ?? null, one.dataset.status])"
    )
    found = {href.rpartition("/")[2].removesuffix(".html"): (ns, status) for href, ns, status in squares}
    assert found.keys() == cells.keys()
    for key, (ns, status) in found.items():
        assert status == cells[key]["status"]
        assert (None if ns is None else float(ns)) == (cells[key]["median_ns"] if status == "ok" else None)


def test_the_tables_of_a_run_have_the_medians(visit, cells):
    page = visit.open(KINDS["run"])
    for grid, workload in (("attention-by-variant", "attention"), ("roofline", "roofline")):
        numbers = sorted(field.number for row in shown(page, grid) for field in row if field.number is not None)
        assert numbers == sorted(cell["median_ns"] for cell in cells.values() if cell["workload"] == workload)


def test_a_cell_has_its_estimate_and_every_launch(visit, cells):
    page = visit.open(KINDS["cell"])
    cell = cells[MAC_CELL.key()]
    said = page.locator("dl").first.inner_text()
    point, unit, low, high = re.search(r"([\d.]+) (\S+) \(([\d.]+) … ([\d.]+)\)", said).groups()
    for number, name in ((point, "median_ns"), (low, "low_ns"), (high, "high_ns")):
        assert float(number) * NS[unit] == pytest.approx(cell[name], rel=0.005)
    launches = shown(page, "launches")
    for row, launch in zip(launches, cell["launches"], strict=True):
        assert row[0].number == launch["launch"]
        assert row[1].number == pytest.approx(statistics.median(launch["samples_ns"]))
        assert row[2].number == len(launch["samples_ns"])
        assert row[4].number == launch["first_call_ns"]


@pytest.mark.parametrize("chart", ["distribution", "sequence"])
def test_the_charts_of_a_cell_draw_its_samples(visit, cells, chart):
    page = visit.open(KINDS["cell"])
    spec = json.loads(page.locator(f"#{chart} script").text_content())
    unit = NS[re.search(r"time of a call, (\w+)", json.dumps(spec, ensure_ascii=False)).group(1)]
    data = spec["datasets"]
    wanted = {launch["launch"]: launch["samples_ns"] for launch in cells[MAC_CELL.key()]["launches"]}
    medians = {row["launch"]: row["median"] * unit for row in data["launches"]}
    assert medians == {launch: pytest.approx(statistics.median(samples), rel=1e-4) for launch, samples in wanted.items()}
    drawn = {row["launch"]: sorted(row["t"]) for row in data["samples" if chart == "sequence" else "launches"]}
    assert drawn == {launch: pytest.approx([ns / unit for ns in sorted(samples)], rel=1e-4) for launch, samples in wanted.items()}


def test_a_comparison_has_the_ratios_and_verdicts(visit, store):
    page = visit.open(KINDS["compare"])
    wanted = printed(store, "compare", *COMPARED)["cells"]
    rows = shown(page, "cells")
    assert len(rows) == len(wanted) == 8
    for row, cell in zip(rows, wanted, strict=True):
        assert cell["name"] in row[0].text
        assert [row[1].number, row[2].number] == cell["median_ns"]
        assert row[3].text.startswith(f"{cell['time']['ratio']:.3f}×")
        assert f"({cell['time']['low']:.3f} … {cell['time']['high']:.3f})" in row[3].text
        assert row[4].text.lower() == cell["time"]["verdict"]


def test_a_history_has_the_points_and_changes(visit, store):
    page = visit.open(KINDS["history"])
    (series,) = printed(store, "history", "--workload", "fft", "--backend", "torch-cpu")
    points = shown(page, "points")
    assert [(row[0].text, row[2].number) for row in points] == [(point["run"], point["median_ns"]) for point in series["points"][::-1]]
    (change,) = series["changes"]
    assert change["run"] == NIGHTS[STEP]
    (row,) = shown(page, "changes")
    assert row[0].text == change["run"]
    assert f"{100 * (change['ratio'] - 1):+.1f}" in " ".join(field.text for field in row)
    assert SLOWED.case == series["cell"]["case"]
