"""The tables beside the times: memory, energy, what really ran, what did not and why, and how exact the answers were."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metalbench.results.layout import Field, Naming, Table, text
from metalbench.results.quantities import Quantity, figure
from metalbench.results.record import TIMED
from metalbench.results.summary import Summary


def details(summaries: Sequence[Summary], naming: Naming) -> list[Table]:
    """All of them that have anything to show."""
    tables = (
        _by_column("Peak memory", summaries, naming, _peaks),
        _by_column("Median time of a call between events on the device", [s for s in summaries if s.device_time], naming, _device_time),
        _by_column("Energy a call", [s for s in summaries if s.energy], naming, _energy),
        _by_column("What the framework says that it ran", [s for s in summaries if s.ran], naming, lambda s: text(s.ran)),
        _sources(summaries),
        _absences(summaries, naming),
        _oddities(summaries, naming),
        _by_column("Errors against float64, of what is tolerated", summaries, naming, _errors),
    )
    return [table for table in tables if table.rows]


def _by_column(title: str, summaries: Sequence[Summary], naming: Naming, field: Callable[[Summary], Field]) -> Table:
    """A row a case that was timed, and its variant where the workload was measured in several; a column a backend."""
    timed = [summary for summary in summaries if summary.status in TIMED]
    variants: dict[tuple[str, tuple[str, str]], set[str]] = {}
    for summary in timed:
        variants.setdefault((summary.cell.workload, summary.cell.column), set()).add(summary.cell.variant)
    several = {workload for (workload, _), measured in variants.items() if len(measured) > 1}
    backends = list(dict.fromkeys(summary.column for summary in timed))
    rows: dict[str, dict[str, Field]] = {}
    for summary in timed:
        variant = f" {summary.cell.variant}" if summary.cell.workload in several else ""
        rows.setdefault(f"{summary.cell.workload} {naming(summary.cell)}{variant}", {})[summary.column] = field(summary)
    nothing: Field = [[Quantity(None)]]
    return Table(title, ["case", *backends], [[text(name), *(row.get(b, nothing) for b in backends)] for name, row in rows.items()])


def _peaks(summary: Summary) -> Field:
    memory = summary.memory
    if memory is None:
        return [[Quantity(None)]]
    shared = [Quantity("(shared)")] if memory.process_shared else []
    device = [[Quantity("device"), Quantity(summary.device_peak, "bytes")]] if summary.device_peak is not None else []
    return [*device, [Quantity("process"), Quantity(memory.process_peak, "bytes"), *shared]]


def _device_time(summary: Summary) -> Field:
    return [[Quantity(summary.device_time, "duration")]]


def _energy(summary: Summary) -> Field:
    return [[Quantity(summary.energy.joules_per_call if summary.energy else None, "energy")]]


def _sources(summaries: Sequence[Summary]) -> Table:
    """Where each backend's figures of memory and energy come from."""
    meters = {s.column: s.energy.source for s in summaries if s.energy is not None}
    passes = [(s.column, s.memory) for s in summaries if s.memory is not None]
    seen = {(column, memory.device_source, memory.process_source, meters.get(column, "no meter")) for column, memory in passes}
    title = "Sources of peak memory (shared: the process had measured other cells before) and energy"
    return Table(title, ["backend", "device", "process", "energy"], [[text(words) for words in row] for row in sorted(seen)])


def _errors(summary: Summary) -> Field:
    error = [Quantity(summary.max_error, "error"), Quantity("of"), Quantity(summary.tolerance, "error")]
    return [error, *([Quantity(name.replace("_", " ")), figure(name, value)] for name, value in summary.figures.items())]


def _absences(summaries: Sequence[Summary], naming: Naming) -> Table:
    """What has no time, cells of one reason together."""
    groups: dict[tuple[str, str, str], list[Summary]] = {}
    for summary in summaries:
        if summary.status not in TIMED:
            groups.setdefault((summary.column, summary.status, summary.reason), []).append(summary)
    rows = []
    for (backend, status, reason), group in groups.items():
        names = dict.fromkeys(f"{s.cell.workload} {naming(s.cell)} {s.cell.variant}" for s in group)
        shown = "; ".join(names) if len(names) <= 3 else f"{len(names)} cells of {', '.join(dict.fromkeys(s.cell.workload for s in group))}"
        rows.append([text(backend), text(status), text(shown), text(reason)])
    return Table("What did not run, and why", ["backend", "status", "cells", "reason"], rows)


def _oddities(summaries: Sequence[Summary], naming: Naming) -> Table:
    """Cells with a time that is shown with a reservation, and why."""
    rows = [
        [text(s.column), text(s.status), text(f"{s.cell.workload} {naming(s.cell)} {s.cell.variant}"), text(s.reason)]
        for s in summaries
        if s.status in TIMED and s.status != "ok"
    ]
    return Table("What ran and is not ranked, and why", ["backend", "status", "cell", "reason"], rows)
