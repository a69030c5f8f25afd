"""Text that wants to be markup is shown as text, on every page and in both forms."""

import csv
from pathlib import Path

import pytest
from support.browsing import drawn
from support.pages import SHOWN
from support.stores import FORMULA, HOSTILE_RUNS, hostile

from metalbench.results.dashboard.source import cell_path, comparison_path, history_path, run_path

RUN, _ = hostile()[-1]
CELL = RUN.cells()[0]
PAGES = {
    "overview": "index.html",
    **{kind: run_path(RUN.id, kind) for kind in ("run", "scaling", "roofline", "operators", "claims")},
    "cell": cell_path(RUN.id, CELL),
    "broken": cell_path(RUN.id, RUN.cells()[-1]),
    "histories": "history/index.html",
    "history": history_path(RUN.host, CELL),
    "comparisons": "compare/index.html",
    "compare": comparison_path(*HOSTILE_RUNS),
}
SCRIPTS = {"theme.js", "dashboard.js", "tables.js", "heatmap.js", "charts.js", "live.js", "vega.js"}


@pytest.mark.parametrize("kind", PAGES)
def test_it_stands_there_as_it_is_and_nothing_happens(visits, hostile_form, kind):
    visit = visits(hostile_form)
    page = visit.open(PAGES[kind])
    charts = drawn(page)
    for place in range(charts.count()):
        charts.nth(place).locator(".plot").hover()
    text = page.evaluate("() => document.body.innerText")
    assert SHOWN in text
    everything = page.evaluate(
        "() => [...document.querySelectorAll('*')].flatMap((one) => [...one.attributes].map((own) => own.value)).join()"
    )
    assert [letter for letter in text + page.title() + everything if not letter.isprintable() and letter not in "\n\t"] == []
    assert not page.evaluate("() => [...document.querySelectorAll('img, iframe, object, embed, base, style, [onerror], [onclick]')].length")
    scripts = page.evaluate("() => [...document.scripts].map((one) => [one.getAttribute('src'), one.type])")
    assert {source.rpartition("/")[2] for source, _ in scripts if source} <= SCRIPTS
    assert {kind for source, kind in scripts if not source} <= {"application/json"}
    addresses = page.evaluate("() => [...document.querySelectorAll('[href], [src]')].map((one) => one.href || one.src)")
    assert all(address.startswith(hostile_form.root) for address in addresses)


def test_a_spreadsheet_takes_no_text_for_a_formula(visits, hostile_form):
    page = visits(hostile_form).open("index.html")
    page.locator("#runs").get_by_label("Filter").fill("<script>alert(1)")
    with page.expect_download() as waited:
        page.locator("#runs").get_by_role("button", name="CSV").click()
    with Path(waited.value.path()).open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    labels = [row[1] for row in rows]
    assert SHOWN in labels
    assert set(labels) <= {SHOWN, f"'{FORMULA}"}
