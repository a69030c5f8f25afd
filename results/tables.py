"""Records → comparable tables, for any printer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from metalbench.results.quantities import Quantity
from metalbench.results.record import TIMED, Cell, Record, Run
from metalbench.results.statistics import tied
from metalbench.results.summary import Summary, summarise

Field = list[list[Quantity]]  #: the lines of one field, each of some quantities
Naming = Callable[[Cell], str]  #: a case in its workload's notation

LEGEND = (
    "Median time of a call with its 95 % interval over launches; the best and every tie for it are marked ★ (Welch's test at 5 %; not "
    "from a single launch); ratios are to the best. ⚠ wrong answers and fallbacks are shown and take part in no ratio. "
    "~ the machine's speed changed across the cell. ! less than an empty call takes: not to be believed."
)


class Table(NamedTuple):
    """``header`` names the columns; a row has a field for each."""

    title: str
    header: list[str]
    rows: list[list[Field]]


class Report(NamedTuple):
    """A run as it is shown: ``facts`` about it, ``notes`` on how to read it, tables."""

    title: str
    facts: list[tuple[str, str]]
    legend: str
    tables: list[Table]


def report(run: Run, records: Sequence[Record], naming: Naming, relative_to: str | None = None) -> Report:
    """The tables of a run: times by workload, memory, what did not run and why, and how exact the answers were."""
    summaries = summarise(run, records)
    tables: list[Table] = []
    for workload in dict.fromkeys(summary.cell.workload for summary in summaries):
        tables += _times(workload, [summary for summary in summaries if summary.cell.workload == workload], naming, relative_to)
    others = (
        _by_backend("Peak memory", summaries, naming, _peaks),
        _sources(summaries),
        _absences(summaries, naming),
        _oddities(summaries, naming),
        _by_backend("Errors against float64, of what is tolerated", summaries, naming, _errors),
    )
    tables += [table for table in others if table.rows]
    legend = LEGEND if relative_to is None else LEGEND.replace("to the best", f"to {relative_to}")
    return Report(f"Run {run.id}{f' “{run.label}”' if run.label else ''}", _facts(run, summaries), legend, tables)


def _facts(run: Run, summaries: Sequence[Summary]) -> list[tuple[str, str]]:
    host = run.host.facts
    versions: dict[str, None] = {}
    for summary in summaries:
        own = ", ".join(f"{name} {value}" for name, value in summary.facts.items() if name in VERSIONED)
        if own:
            versions[f"{summary.cell.backend}: {own}"] = None
    launches = max((len(summary.medians) for summary in summaries), default=0)
    missing = len(run.cells()) - len(summaries)
    state = run.state if not missing else f"{run.state}, {missing} of {len(run.cells())} cells not measured"
    return [
        ("machine", "{}, {} cores, {} GiB, {}".format(*(host.get(name, "?") for name in ("chip", "cores", "memory_gib", "system")))),
        ("began", f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(run.started))} UTC ({state})"),
        ("protocol", f"{_joined(s.cell.protocol for s in summaries)}, {launches} launches, {_joined(s.cell.policy for s in summaries)}"),
        *(("versions", version) for version in versions),
    ]


#: facts that are versions of packages; a device names further ones (threads, precision switches) under other keys
VERSIONED = frozenset({"torch", "jax", "jaxlib", "jax-metal", "mlx", "tensorflow", "tensorflow-metal", "keras", "numpy"})


def _joined(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _times(workload: str, summaries: Sequence[Summary], naming: Naming, relative_to: str | None) -> list[Table]:
    """A row a case, with each backend's own choice of variant; and where several were measured, a row a case and variant."""
    backends = list(dict.fromkeys(summary.cell.backend for summary in summaries))
    cases: dict[str, list[Summary]] = {}
    for summary in summaries:
        cases.setdefault(naming(summary.cell), []).append(summary)
    rows = [[_text(name), *_row(_chosen(found), backends, relative_to, name_variant=True)] for name, found in cases.items()]
    tables = [Table(workload, ["case", *backends], rows)]
    if all(len([s for s in found if s.cell.backend == backend]) <= 1 for found in cases.values() for backend in backends):
        return tables
    rows = []
    for name, found in cases.items():
        for variant in dict.fromkeys(summary.cell.variant for summary in found):
            alike = {summary.cell.backend: summary for summary in found if summary.cell.variant == variant}
            rows.append([_text(name), _text(variant), *_row(alike, backends, relative_to, name_variant=False)])
    return [*tables, Table(f"{workload}, by variant", ["case", "variant", *backends], rows)]


def _chosen(summaries: Sequence[Summary]) -> dict[str, Summary]:
    """Each backend's own choice of variant; where that wasn't measured, the first that was."""
    chosen: dict[str, Summary] = {}
    for summary in summaries:
        if summary.cell.backend not in chosen or (summary.default and not chosen[summary.cell.backend].default):
            chosen[summary.cell.backend] = summary
    return chosen


def _row(by_backend: dict[str, Summary], backends: Sequence[str], relative_to: str | None, *, name_variant: bool) -> list[Field]:
    ranked = [summary for summary in by_backend.values() if summary.ranked]
    best = min(ranked, key=lambda summary: summary.medians and summary.time.median if summary.time else 0, default=None)
    base = best if relative_to is None else next((summary for summary in ranked if summary.cell.backend == relative_to), None)
    return [_field(by_backend.get(backend), best, base, name_variant=name_variant) for backend in backends]


def _field(summary: Summary | None, best: Summary | None, base: Summary | None, *, name_variant: bool) -> Field:
    if summary is None:
        return [[Quantity(None)]]
    variant = [Quantity(summary.cell.variant)] if name_variant else []
    if summary.time is None or summary.status not in TIMED:
        return [line for line in ([Quantity(summary.status)], variant) if line]
    marks = ("~" if summary.drifted else "") + ("!" if summary.incredible else "")
    if summary.ranked:
        star = best is not None and len(best.medians) > 1 and (best is summary or tied(summary.medians, best.medians))
        marks = ("★" if star else "") + marks
    time_line = [Quantity(tuple(summary.time), "estimate"), *([Quantity(marks)] if marks else [])]
    seconds = summary.time.median / 1e9
    rates = [
        Quantity(summary.flops / seconds, "flops") if summary.flops else None,
        Quantity(summary.bytes / seconds, "bandwidth") if summary.bytes else None,
    ]
    if summary.status != "ok":
        standing = [Quantity(f"⚠ {summary.status}"), Quantity(summary.max_error, "error")]
    elif base is not None and base.time is not None:
        standing = [Quantity(summary.time.median / base.time.median, "ratio")]
    else:
        standing = []
    return [line for line in (time_line, [*standing, *filter(None, rates)], variant) if line]


def _by_backend(title: str, summaries: Sequence[Summary], naming: Naming, field: Callable[[Summary], Field]) -> Table:
    """A row a case that was timed, named with its variant where that isn't the backend's own choice; a column a backend."""
    timed = [summary for summary in summaries if summary.status in TIMED]
    backends = list(dict.fromkeys(summary.cell.backend for summary in timed))
    rows: dict[str, dict[str, Field]] = {}
    for summary in timed:
        variant = "" if summary.default else f" {summary.cell.variant}"
        rows.setdefault(f"{summary.cell.workload} {naming(summary.cell)}{variant}", {})[summary.cell.backend] = field(summary)
    nothing: Field = [[Quantity(None)]]
    return Table(title, ["case", *backends], [[_text(name), *(row.get(b, nothing) for b in backends)] for name, row in rows.items()])


def _peaks(summary: Summary) -> Field:
    memory = summary.memory
    if memory is None:
        return [[Quantity(None)]]
    shared = [Quantity("(shared)")] if memory.process_shared else []
    device = [[Quantity("device"), Quantity(summary.device_peak, "bytes")]] if summary.device_peak is not None else []
    return [*device, [Quantity("process"), Quantity(memory.process_peak, "bytes"), *shared]]


def _sources(summaries: Sequence[Summary]) -> Table:
    """Where each backend's memory figures come from."""
    seen = {(s.cell.backend, s.memory.device_source, s.memory.process_source) for s in summaries if s.memory is not None}
    title = "Sources of peak memory (shared: the process had measured other cells before)"
    return Table(title, ["backend", "device", "process"], [[_text(text) for text in row] for row in sorted(seen)])


def _errors(summary: Summary) -> Field:
    error = [Quantity(summary.max_error, "error"), Quantity("of"), Quantity(summary.tolerance, "error")]
    return [error, *([Quantity(f"{name.replace('_', ' ')} {value:.3g}")] for name, value in summary.figures.items())]


def _absences(summaries: Sequence[Summary], naming: Naming) -> Table:
    """What has no time, cells of one reason together."""
    groups: dict[tuple[str, str, str], list[Summary]] = {}
    for summary in summaries:
        if summary.status not in TIMED:
            groups.setdefault((summary.cell.backend, summary.status, summary.reason), []).append(summary)
    rows = []
    for (backend, status, reason), group in groups.items():
        names = dict.fromkeys(f"{s.cell.workload} {naming(s.cell)} {s.cell.variant}" for s in group)
        shown = "; ".join(names) if len(names) <= 3 else f"{len(names)} cells of {_joined(s.cell.workload for s in group)}"
        rows.append([_text(backend), _text(status), _text(shown), _text(reason)])
    return Table("What did not run, and why", ["backend", "status", "cells", "reason"], rows)


def _oddities(summaries: Sequence[Summary], naming: Naming) -> Table:
    """Cells with a time that is shown with a reservation, and why."""
    rows = [
        [_text(s.cell.backend), _text(s.status), _text(f"{s.cell.workload} {naming(s.cell)} {s.cell.variant}"), _text(s.reason)]
        for s in summaries
        if s.status in TIMED and s.status != "ok"
    ]
    return Table("What ran and is not ranked, and why", ["backend", "status", "cell", "reason"], rows)


def _text(text: str) -> Field:
    return [[Quantity(text)]]
