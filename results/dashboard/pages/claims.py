"""Which of the source documents' claims hold, as far as one run tells."""

from __future__ import annotations

from metalbench.results.claims import Finding, check, claims
from metalbench.results.claims_report import LEGEND, compared, measured, promised
from metalbench.results.dashboard.source import Source, cell_path
from metalbench.results.dashboard.view import Entry, Grid, View, words
from metalbench.results.layout import Naming
from metalbench.results.machines import described
from metalbench.results.record import Run

HEADER = ["claim", "backend", "verdict", "measured", "documents", "compared", "source", "why"]


def view(source: Source, name: str) -> View:
    """Of the run whose slug is ``name``: each claim on each backend that has one of its sides."""
    run, summaries = source.measured(source.run_called(name))
    findings = [found for found in check(claims(), summaries) if found.better or found.than]
    rows = [_row(found, run, source.naming) for found in findings]
    content = {
        "facts": [("run", run.id), ("machine", described(run.host))],
        "claims": Grid("claims", "Claims", HEADER, rows) if rows else None,
        "legend": LEGEND,
        "run": run,
    }
    return View("claims.html", "What the documents claim", content)


def _row(found: Finding, run: Run, naming: Naming) -> list[Entry]:
    side = found.better or found.than
    return [
        Entry([found.claim.id, found.claim.says], found.claim.id, cell_path(run.id, side.cell) if side else ""),
        words(found.column),
        words(found.verdict),
        Entry([measured(found)], found.measured),
        words(promised(found.claim)),
        words(compared(found, naming)),
        words(found.claim.source),
        words(found.reason),
    ]
