"""The cells of a run under the roofs that were measured on its machine: how far each is from what the machine can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metalbench.results.charts import roofline
from metalbench.results.dashboard.source import Source, cell_path
from metalbench.results.dashboard.view import Entry, Grid, View, shown, words
from metalbench.results.layout import Naming
from metalbench.results.machines import same_machine
from metalbench.results.peaks import WORKLOAD, Peaks, fraction, peaks
from metalbench.results.quantities import Quantity
from metalbench.results.record import Run
from metalbench.results.summary import Summary, summarise

LOOKED_AT = 50  #: the machine's newest runs, among which one with roofs is looked for
HEADER = ["case", "backend", "variant", "of the roof", "bound by", "FLOP/s", "bytes/s", "FLOPs a byte", "FLOPs", "bytes", "status"]
NOTHING = Entry(["–"], None)
Roofs = Mapping[tuple[str, str], Peaks]  #: by ``Cell.column``


def view(source: Source, name: str) -> View:
    run, summaries = source.measured(source.run_called(name))
    origin, roofs = _roofs(source, run, summaries)
    counted = [summary for summary in summaries if summary.medians and (summary.flops or summary.bytes)]
    drawn = any(summary.flops and summary.bytes for summary in counted)
    content = {
        "run": run,
        "elsewhere": origin if origin != run.id else "",
        "roofs": bool(roofs),
        "figure": roofline.figure(summaries, source.naming, roofs) if drawn else None,
        "rates": Grid("rates", "The same in numbers", HEADER, [_row(run, summary, roofs, source.naming) for summary in counted]),
    }
    return View("roofline.html", f"Roofline of run {run.id}{f' “{run.label}”' if run.label else ''}", content)


def _roofs(source: Source, run: Run, summaries: Sequence[Summary]) -> tuple[str, Roofs]:
    """The run that the roofs come from, and the roofs: its own, else of the machine's newest run that has some for its columns."""
    if own := peaks(summaries):
        return run.id, own
    columns = {summary.cell.column for summary in summaries}
    hosts = {host.key for host in source.store.hosts() if same_machine(host, run.host)}
    for name in [other.id for other in source.runs() if other.host in hosts][:LOOKED_AT]:
        other = source.store.run(name)
        cells = [cell for cell in other.cells() if cell.workload == WORKLOAD and cell.column in columns]
        if found := peaks(summarise(other, [record for cell in cells for record in source.store.records(name, cell.key())])):
            return name, found
    return run.id, {}


def _row(run: Run, summary: Summary, roofs: Roofs, naming: Naming) -> list[Entry]:
    assert summary.median is not None
    seconds, own = summary.median / 1e9, roofs.get(summary.cell.column)
    share = fraction(summary, own) if own else None
    flops, traffic = summary.flops, summary.bytes
    return [
        words(f"{summary.cell.workload} {naming(summary.cell)}", cell_path(run.id, summary.cell)),
        words(summary.column),
        words(summary.cell.variant),
        Entry([_percent(share)], share) if share is not None else NOTHING,
        _bound(summary, own) if share is not None and own else NOTHING,
        shown(Quantity(flops / seconds, "flops")) if flops else NOTHING,
        shown(Quantity(traffic / seconds, "bandwidth")) if traffic else NOTHING,
        Entry([f"{flops / traffic:.3g}"], flops / traffic) if flops and traffic else NOTHING,
        Entry([str(Quantity(float(flops), "flops")).removesuffix("/s")], flops) if flops else NOTHING,
        shown(Quantity(traffic, "bytes")) if traffic else NOTHING,
        words(summary.status),
    ]


def _bound(summary: Summary, own: Peaks) -> Entry:
    """What takes longer at the peaks, of a cell that has the fraction of both or needs one only."""
    level = own.flops.get(str(summary.cell.case.get("dtype")))
    multiplying = summary.flops / level if summary.flops and level else 0.0
    moving = summary.bytes / own.bandwidth if summary.bytes and own.bandwidth else 0.0
    return words("arithmetic" if multiplying > moving else "memory")


def _percent(share: float) -> str:
    """Two digits, however little it is."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
