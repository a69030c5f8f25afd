"""How time grows with the size of the work, in one run."""

from __future__ import annotations

from metalbench.results.charts.scaling import Axis, families, figures
from metalbench.results.dashboard.source import Source, cell_path
from metalbench.results.dashboard.view import Entry, Grid, View, shown, words
from metalbench.results.layout import Naming
from metalbench.results.quantities import Quantity
from metalbench.results.record import Run
from metalbench.results.summary import Summary

HEADER = ["case", "by", "size", "backend", "variant", "time of a call", "low", "high", "status", "the same in all"]


def view(source: Source, name: str) -> View:
    run, summaries = source.measured(source.run_called(name))
    rows = []
    for axis, family in families(summaries):
        sizes = axis.of
        ordered = sorted(family, key=lambda summary: (summary.column, summary.cell.variant, sizes[summary.cell.key()]))
        rows += [_row(run, axis, summary, source.naming) for summary in ordered]
    content = {
        "run": run,
        "figures": figures(summaries, source.naming),
        "sizes": Grid("sizes", "The same in numbers", HEADER, rows),
        "timed": any(summary.medians for summary in summaries),
    }
    return View("scaling.html", f"Scaling in run {run.id}{f' “{run.label}”' if run.label else ''}", content)


def _row(run: Run, axis: Axis, summary: Summary, naming: Naming) -> list[Entry]:
    assert summary.time is not None
    size = axis.of[summary.cell.key()]
    fixed = ", ".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in axis.fixed.items())
    return [
        words(f"{summary.cell.workload} {naming(summary.cell)}", cell_path(run.id, summary.cell)),
        words(axis.title),
        Entry([f"{size:.0f}" if size.is_integer() else f"{size:g}"], size),
        words(summary.column),
        words(summary.cell.variant),
        *(shown(Quantity(value, "duration")) for value in summary.time),
        words(summary.status),
        words(fixed),
    ]
