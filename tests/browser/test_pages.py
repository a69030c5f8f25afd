"""What people do with the dashboard: open, filter, sort, follow a square to its cell, compare two runs, download."""

import csv
import io
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.browsing import COMPARED, KINDS, MAC_CELL, drawn, shown
from support.stores import MAC_RUN, NIGHTS, SLOWED

from metalbench.results.dashboard.source import cell_path

RUN = KINDS["run"]
CHARTS = {"cell": 2, "scaling": 2, "roofline": 1, "history": 1, "compare": 1}  #: at least


def options(select):
    return select.locator("option").evaluate_all("(all) => all.map((one) => one.value)")


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_opens_and_its_charts_are_drawn(visit, kind):
    page = visit.open(KINDS[kind])
    expect(page.locator("h1")).to_have_count(1)
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_text(["Overview", "Compare", "History"])
    assert drawn(page).count() >= CHARTS.get(kind, 0)


def test_words_filter_a_table_and_the_link_tells_them_to_others(visit, visits):
    page = visit.open("index.html")
    runs = page.locator("#runs")
    whole = len(shown(page, "runs"))
    runs.get_by_label("Filter").fill("apple  NEW")
    assert [row[0].text for row in shown(page, "runs")] == [MAC_RUN]
    expect(runs.get_by_role("status")).to_have_text(f"1 of {whole} rows")
    other = visits(visit.form)
    other.page.goto(page.url)
    assert [row[0].text for row in shown(other.page, "runs")] == [MAC_RUN]
    expect(other.page.locator("#runs").get_by_label("Filter")).to_have_value("apple  NEW")
    runs.get_by_label("Filter").fill("")
    assert len(shown(page, "runs")) == whole
    assert "#" not in page.url


def test_a_heading_sorts_by_value_up_then_down_then_not_at_all(visit):
    page = visit.open(RUN)
    before = shown(page, "attention")
    times = [row[1].number for row in before]
    assert sorted(times) not in (times, times[::-1])
    heading = page.locator("#attention thead th").nth(1)
    for order, wanted in (("ascending", sorted(times)), ("descending", sorted(times, reverse=True))):
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", order)
        assert [row[1].number for row in shown(page, "attention")] == wanted
    page.reload()
    assert [row[1].number for row in shown(page, "attention")] == sorted(times, reverse=True)
    heading.get_by_role("button").click()
    assert shown(page, "attention") == before


def test_a_square_leads_to_its_cell(visit):
    page = visit.open("index.html")
    square = page.locator(f"#heatmap a[href='{cell_path(MAC_RUN, MAC_CELL)}']").first
    told = square.get_attribute("title")
    square.click()
    expect(page.locator("h1")).to_have_text("attention 1×8×512×64 causal float32 · mlx-metal · fused")
    assert told.split(" (")[0] in page.locator("dl").first.inner_text()
    page.locator("main").get_by_role("link", name=f"Run {MAC_RUN}").click()
    expect(page.locator("h1")).to_contain_text(MAC_RUN)


def ratios(page):
    """Of each square that has a time: (row, column, ns, the ratio that it shows)."""
    return page.evaluate(
        """() => [...document.querySelectorAll("#heatmap tr.row")].flatMap((row, place) => [...row.querySelectorAll("td")].flatMap(
        (field, column) => row.hidden || !field.dataset.ns ? [] : [[place, column, Number(field.dataset.ns), field.querySelector(".ratio")
        .textContent]]))"""
    )


@pytest.mark.parametrize("base", ["the fastest", "tf-metal"])
def test_the_heat_map_compares_with_a_column_of_ones_choice(visit, base):
    page = visit.open(RUN)
    page.locator("#heatmap").get_by_label("Relative to").select_option(label=base)
    found = ratios(page)
    columns = page.locator("#heatmap tr.columns th").all_inner_texts()
    chosen = None if base == "the fastest" else next(place for place, name in enumerate(columns) if name.startswith(base))
    compared = 0
    for row, _, ns, text in found:
        times = {column: time for other, column, time, _ in found if other == row}
        against = min(times.values()) if chosen is None else times.get(chosen)
        assert text == "no base" if against is None else float(text.rstrip("×")) == pytest.approx(ns / against, rel=0.006, abs=0.006)
        compared += against is not None
    assert compared >= 36


def test_the_heat_map_filters_by_what_a_square_is(visit):
    page = visit.open("index.html")
    square = "#heatmap tbody td:not(.filtered):visible a"
    everything = page.locator(square).count()
    for name, admitted in (("machine", "Apple M4 Pro"), ("dtype", "float16"), ("version", "mlx 0.32.4")):
        select = page.locator("#heatmap").get_by_label(name, exact=True)
        assert admitted in options(select)
        select.select_option(admitted)
    links = page.locator(square).evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
    assert 0 < len(links) < everything
    wanted = {MAC_CELL.backend, "float16"}
    for link in links:
        page.goto(visit.form.address(link))
        assert all(word in page.locator("h1").inner_text() for word in wanted)


def test_rows_by_variant_appear_where_one_is_asked_for(visit):
    page = visit.open(RUN)
    page.locator("#heatmap").get_by_label("variant", exact=True).select_option("composed")
    shown_variants = page.locator("#heatmap tr.row:visible td:visible:not(.filtered)")
    assert shown_variants.count() == 24
    assert set(shown_variants.evaluate_all("(all) => all.map((one) => one.dataset.variant)")) == {"composed"}


def test_two_runs_are_compared(visit):
    page = visit.open("index.html")
    page.get_by_role("navigation").get_by_role("link", name="Compare").click()
    base, candidate = COMPARED
    if visit.form.name == "served":
        for name, run in (("Base", base), ("Candidate", candidate)):
            page.get_by_label(name).select_option(run)
        page.get_by_role("button", name="Compare").click()
    else:
        page.locator(f"main a[href$='compare/{base}/{candidate}.html']").first.click()
    expect(page).to_have_url(visit.form.address(KINDS["compare"]))
    verdicts = [(row[0].text.split(" ")[0], row[0].text.split(" · ")[1], row[4].text) for row in shown(page, "cells")]
    assert verdicts[0] == ("attention", "tf-cpu", "SLOWER")
    assert [verdict for _, _, verdict in verdicts[1:]] == ["SAME"] * 7
    page.locator("#cells tbody th a").first.click()
    expect(page.locator("h1")).to_have_text("attention 1×8×512×64 causal float32 · tf-cpu · fused")


def test_the_history_names_the_run_at_which_a_cell_became_slower(visit):
    page = visit.open("history/index.html")
    page.get_by_label("Filter").first.fill("fft 16384 torch-cpu")
    page.locator("main tbody tr:visible a").first.click()
    expect(page).to_have_url(visit.form.address(KINDS["history"]))
    assert NIGHTS[8] in page.locator("section.grid").first.inner_text()
    assert SLOWED.backend in page.locator("h1").inner_text()


def downloaded(page, button):
    with page.expect_download() as waited:
        button.click()
    return waited.value.suggested_filename, Path(waited.value.path()).read_bytes()


def test_a_table_downloads_as_it_is_shown(visit):
    page = visit.open(RUN)
    grid = page.locator("#attention-by-variant")
    grid.get_by_label("Filter").fill("float16")
    grid.get_by_role("button", name="mlx-metal").click()
    name, content = downloaded(page, grid.get_by_role("button", name="CSV"))
    assert name == "attention-by-variant.csv"
    header, *rows = csv.reader(io.StringIO(content.decode("utf-8"), newline=""))
    assert header == ["case", "variant", "torch-mps", "jax-metal", "mlx-metal", "tf-metal"]
    wanted = shown(page, "attention-by-variant")
    assert len(rows) == len(wanted) == 6
    for row, fields in zip(rows, wanted, strict=True):
        assert row[:2] == [fields[0].text, fields[1].text]
        assert [float(value) for value in row[2:]] == [field.number for field in fields[2:]]
    assert [float(row[4]) for row in rows] == sorted(float(row[4]) for row in rows)


@pytest.mark.parametrize("kind", ["cell", "history", "compare", "roofline", "scaling"])
def test_a_chart_downloads_as_svg_and_png(visit, kind):
    page = visit.open(KINDS[kind])
    chart = page.locator("figure.chart").first
    name, content = downloaded(page, chart.get_by_role("button", name="SVG"))
    assert name == f"{chart.get_attribute('id')}.svg"
    root = ET.fromstring(content)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = "".join(root.itertext())
    assert page.locator("figcaption").first.inner_text()[:30] in words, "its title goes with it"
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 5
    name, content = downloaded(page, chart.get_by_role("button", name="PNG"))
    assert name.endswith(".png")
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert width >= 1200
    assert height >= 300


def test_without_scripts_the_pages_have_all_their_words_and_numbers(visits, form):
    plain = visits(form, java_script_enabled=False)
    alive = visits(form)
    for kind in ("overview", "run", "cell", "compare", "history"):
        plain.open(KINDS[kind])
        alive.open(KINDS[kind])
        cells = [
            own.page.locator("section.grid tbody tr").evaluate_all("(all) => all.map((one) => one.textContent)") for own in (plain, alive)
        ]
        assert cells[0] == cells[1]
        assert cells[0]
