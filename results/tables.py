"""Records → comparable tables, for any printer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from metalbench.results.details import details
from metalbench.results.layout import Field, Naming, Report, Table, text
from metalbench.results.quantities import Quantity
from metalbench.results.record import TIMED, Record, Run
from metalbench.results.statistics import tied
from metalbench.results.summary import Summary, summarise

LEGEND = (
    "Median time of a call with its 95 % interval over launches; the best and every tie for it are marked ★ (Welch's test at 5 %; not "
    "from a single launch); ratios are to the best. ⚠ wrong answers and fallbacks are shown and take part in no ratio. "
    "~ the machine's speed changed across the cell. ! less than an empty call takes: not to be believed."
)


def report(run: Run, records: Sequence[Record], naming: Naming, relative_to: str | None = None) -> Report:
    """The tables of a run: times by workload, memory, what did not run and why, and how exact the answers were."""
    summaries = summarise(run, records)
    tables: list[Table] = []
    for workload in dict.fromkeys(summary.cell.workload for summary in summaries):
        tables += _times(workload, [summary for summary in summaries if summary.cell.workload == workload], naming, relative_to)
    tables += details(summaries, naming)
    legend = LEGEND if relative_to is None else LEGEND.replace("to the best", f"to {relative_to}")
    return Report(f"Run {run.id}{f' “{run.label}”' if run.label else ''}", _facts(run, summaries), legend, tables)


def _facts(run: Run, summaries: Sequence[Summary]) -> list[tuple[str, str]]:
    host = run.host.facts
    versions: dict[str, None] = {}
    for summary in summaries:
        own = ", ".join(f"{name} {value}" for name, value in summary.facts.items() if name in VERSIONED)
        if own:
            versions[f"{summary.column}: {own}"] = None
    launches = max((len(summary.medians) for summary in summaries), default=0)
    missing = len(run.cells()) - len(summaries)
    state = run.state if not missing else f"{run.state}, {missing} of {len(run.cells())} cells not measured"
    return [
        ("machine", "{}, {} cores, {} GiB, {}".format(*(host.get(name, "?") for name in ("chip", "cores", "memory_gib", "system")))),
        ("began", f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(run.started))} UTC ({state})"),
        ("protocol", f"{_joined(s.cell.protocol for s in summaries)}, {launches} launches, {_joined(s.cell.policy for s in summaries)}"),
        *(("versions", version) for version in versions),
        *(("state", state) for state in _states(summaries)),
    ]


def _states(summaries: Sequence[Summary]) -> list[str]:
    """The machine's state as it was found, what varied between workers with every value that it had."""
    seen: dict[str, dict[str, None]] = {}
    for name, value in (item for s in summaries for found in s.measurements for item in found.conditions.items()):
        seen.setdefault(name, {})[value] = None
    shown = {name: list(values) if len(values) <= 3 else [min(values), "…", max(values)] for name, values in seen.items()}
    return ["; ".join(f"{name.replace('_', ' ')} {' / '.join(values)}" for name, values in shown.items())] if shown else []


#: facts that are versions of packages; a device names further ones (threads, precision switches) under other keys
VERSIONED = {
    *("torch", "jax", "jaxlib", "jax-metal", "jax-mps", "metaljax", "jax-metallib", "applejax", "mlx"),
    *("tensorflow", "tensorflow-metal", "keras", "numpy"),
}


def _joined(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _times(workload: str, summaries: Sequence[Summary], naming: Naming, relative_to: str | None) -> list[Table]:
    """A row a case, with each backend's own choice of variant; and where several were measured, a row a case and variant."""
    backends = list(dict.fromkeys(summary.column for summary in summaries))
    cases: dict[str, list[Summary]] = {}
    for summary in summaries:
        cases.setdefault(naming(summary.cell), []).append(summary)
    rows = [[text(name), *_row(_chosen(found), backends, relative_to, name_variant=True)] for name, found in cases.items()]
    tables = [Table(workload, ["case", *backends], rows)]
    if all(len([s for s in found if s.column == backend]) <= 1 for found in cases.values() for backend in backends):
        return tables
    rows = []
    for name, found in cases.items():
        for variant in dict.fromkeys(summary.cell.variant for summary in found):
            alike = {summary.column: summary for summary in found if summary.cell.variant == variant}
            rows.append([text(name), text(variant), *_row(alike, backends, relative_to, name_variant=False)])
    return [*tables, Table(f"{workload}, by variant", ["case", "variant", *backends], rows)]


def _chosen(summaries: Sequence[Summary]) -> dict[str, Summary]:
    """Each backend's own choice of variant; where that wasn't measured, the first that was."""
    chosen: dict[str, Summary] = {}
    for summary in summaries:
        if summary.column not in chosen or (summary.default and not chosen[summary.column].default):
            chosen[summary.column] = summary
    return chosen


def _row(by_backend: dict[str, Summary], backends: Sequence[str], relative_to: str | None, *, name_variant: bool) -> list[Field]:
    ranked = [summary for summary in by_backend.values() if summary.ranked]
    best = min(ranked, key=lambda summary: summary.medians and summary.time.median if summary.time else 0, default=None)
    base = (
        best
        if relative_to is None
        else next((summary for summary in ranked if relative_to in {summary.column, summary.cell.backend}), None)
    )
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
