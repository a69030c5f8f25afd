"""The page of a run: what it is, its heat map, and every table of ``bench show``."""

from __future__ import annotations

from collections.abc import Sequence

from metalbench.results.charts.style import chart_name
from metalbench.results.dashboard.heatmap import heatmap
from metalbench.results.dashboard.source import Source, comparison_path, run_path
from metalbench.results.dashboard.view import Grid, View, grid
from metalbench.results.layout import Table
from metalbench.results.record import Run
from metalbench.results.tables import side_by_side

ASKED = 20  #: earlier runs among which one of the same suite is looked for
KINDS = {"scaling": "Scaling", "roofline": "Roofline", "operators": "Operators", "claims": "Claims of the documents"}


def view(source: Source, name: str) -> View:
    run, summaries = source.measured(source.run_called(name))
    report = side_by_side([(run, summaries)], source.naming)
    links = [(title, run_path(run.id, kind)) for kind, title in KINDS.items()]
    if other := _other(source, run):
        title = f"Compare with {other}, measured in turn" if run.beside else f"Compare with the one before, {other}"
        links.append((title, comparison_path(other, run.id)))
    content = {
        "run": run,
        "links": [*links, ("Histories", "history/index.html")],
        "facts": report.facts,
        "map": heatmap([(run, summaries)], source.naming),
        "tables": _grids(report.tables),
        "legend": report.legend,
    }
    return View("run.html", report.title, content)


def _other(source: Source, run: Run) -> str:
    """The id of the run measured in turn with this one, else of the last before it of its suite on this machine; empty if there is none."""
    runs = source.runs()
    if run.beside:
        return next((other.id for other in runs if other.id == run.beside), "")
    earlier = [other.id for other in runs if other.started < run.started and other.host == run.host.key and other.records]
    alike = (other for other in source.store.load(earlier[:ASKED]) if not other.beside and other.suite() == run.suite())
    return next((other.id for other in alike), "")


def _grids(tables: Sequence[Table]) -> list[Grid]:
    """Named by their titles, as far as those make plain names, and told apart by numbers where they don't."""
    grids: list[Grid] = []
    for table in tables:
        name, taken = chart_name(table.title)[:40], {found.name for found in grids} | {"", "content", "heatmap"}
        grids.append(grid(f"{name or 'table'}-{len(grids) + 1}" if name in taken else name, table))
    return grids
