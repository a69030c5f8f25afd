"""Records → comparable tables, for any printer."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from metalbench.results.details import details
from metalbench.results.layout import Field, Naming, Report, Table, text
from metalbench.results.machines import described
from metalbench.results.peaks import Peaks, fraction, peaks
from metalbench.results.quantities import Quantity
from metalbench.results.ranking import ranking
from metalbench.results.record import TIMED, Cell, Record, Run
from metalbench.results.summary import Side, Summary, named_by_machine, summarise

LEGEND = (
    "Median time of a call with its 95 % interval over launches; the best and every tie for it are marked ★ (Welch's test at 5 %; not "
    "from a single launch); ratios are to the best. ⚠ wrong answers and fallbacks are shown and take part in no ratio. "
    "~ the machine's speed changed across the cell. ! less than an empty call takes: not to be believed."
)
PEAK_LEGEND = (
    " % of peak: the least time for the work's FLOPs and bytes at the speeds that `roofline` measured on that backend in this run, over "
    "the median; a cache may make it more than 100."
)
AGREEING = ("version", "policy", "protocol")  #: what cells must have in common to stand in one row, beside workload and case
Measured = Mapping[str, Peaks]  #: by what the column is called


def report(run: Run, records: Sequence[Record], naming: Naming, relative_to: str | None = None) -> Report:
    """The tables of a run."""
    return side_by_side([(run, summarise(run, records))], naming, relative_to)


def side_by_side(sides: Sequence[Side], naming: Naming, relative_to: str | None = None) -> Report:
    """The tables of one run or of several: times by workload, memory, what did not run and why, and how exact the answers were.

    Several have columns of their own each; ratios are to the best of all. What isn't the same work has rows of its own.
    """
    apart = named_by_machine(sides)
    summaries = [summary for _, own in apart for summary in own]
    naming = telling(naming, [summary.cell for summary in summaries])
    measured = {s.column: found[s.cell.column] for _, own in apart for found in [peaks(own)] for s in own if s.cell.column in found}
    tables: list[Table] = []
    for workload in dict.fromkeys(summary.cell.workload for summary in summaries):
        tables += _times(workload, [summary for summary in summaries if summary.cell.workload == workload], naming, relative_to, measured)
    tables += details(summaries, naming)
    legend = LEGEND if relative_to is None else LEGEND.replace("to the best", f"to {relative_to}")
    legend += PEAK_LEGEND if measured else ""
    if len(sides) == 1:
        return Report(f"Run {_title(sides[0][0])}", _facts(*sides[0]), legend, tables)
    facts = [fact for run, own in sides for fact in (("run", _title(run)), *_facts(run, own))]
    return Report(f"{len(sides)} runs side by side", facts, legend, tables)


def _title(run: Run) -> str:
    return f"{run.id} “{run.label}”" if run.label else run.id


def _facts(run: Run, summaries: Sequence[Summary]) -> list[tuple[str, str]]:
    versions: dict[str, None] = {}
    for summary in summaries:
        own = ", ".join(f"{name} {value}" for name, value in summary.facts.items() if name in VERSIONED)
        if own:
            versions[f"{summary.column}: {own}"] = None
    launches = max((len(summary.medians) for summary in summaries), default=0)
    missing = len(run.cells()) - len(summaries)
    state = run.state if not missing else f"{run.state}, {missing} of {len(run.cells())} cells not measured"
    return [
        ("machine", described(run.host)),
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


def telling(naming: Naming, cells: Collection[Cell]) -> Naming:
    """The naming that says version, protocol and precision policy too, where a workload's cells differ in them: that is other work."""
    seen: dict[tuple[str, str], set[object]] = {}
    for cell in cells:
        for field in AGREEING:
            seen.setdefault((cell.workload, field), set()).add(getattr(cell, field))

    def name(cell: Cell) -> str:
        said = [f"{field} {getattr(cell, field)}" for field in AGREEING if len(seen[cell.workload, field]) > 1]
        return f"{naming(cell)} ({', '.join(said)})" if said else naming(cell)

    return name


def _joined(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _times(workload: str, summaries: Sequence[Summary], naming: Naming, relative_to: str | None, measured: Measured) -> list[Table]:
    """A row a case, with each backend's own choice of variant; and where several were measured, a row a case and variant."""
    backends = list(dict.fromkeys(summary.column for summary in summaries))
    cases: dict[str, list[Summary]] = {}
    for summary in summaries:
        cases.setdefault(naming(summary.cell), []).append(summary)
    rows = [[text(name), *_row(chosen(found), backends, relative_to, measured, name_variant=True)] for name, found in cases.items()]
    tables = [Table(workload, ["case", *backends], rows)]
    if all(len([s for s in found if s.column == backend]) <= 1 for found in cases.values() for backend in backends):
        return tables
    rows = []
    for name, found in cases.items():
        for variant in dict.fromkeys(summary.cell.variant for summary in found):
            alike = {summary.column: summary for summary in found if summary.cell.variant == variant}
            rows.append([text(name), text(variant), *_row(alike, backends, relative_to, measured, name_variant=False)])
    return [*tables, Table(f"{workload}, by variant", ["case", "variant", *backends], rows)]


def chosen(summaries: Sequence[Summary]) -> dict[str, Summary]:
    """Each backend's own choice of variant; where that wasn't measured, the first that was."""
    found: dict[str, Summary] = {}
    for summary in summaries:
        if summary.column not in found or (summary.default and not found[summary.column].default):
            found[summary.column] = summary
    return found


def _row(
    by_backend: dict[str, Summary], backends: Sequence[str], relative_to: str | None, measured: Measured, *, name_variant: bool
) -> list[Field]:
    ranked = ranking(by_backend.values())
    base = ranked[0].summary if ranked else None
    if relative_to is not None:
        base = next((s for s in by_backend.values() if s.ranked and relative_to in {s.column, s.cell.backend}), None)
    starred = {one.summary.column for one in ranked if one.star}
    return [_field(by_backend.get(backend), base, measured, star=backend in starred, name_variant=name_variant) for backend in backends]


def _field(summary: Summary | None, base: Summary | None, measured: Measured, *, star: bool, name_variant: bool) -> Field:
    if summary is None:
        return [[Quantity(None)]]
    variant = [Quantity(summary.cell.variant)] if name_variant else []
    if summary.time is None or summary.status not in TIMED:
        return [line for line in ([Quantity(summary.status)], variant) if line]
    marks = ("★" if star else "") + ("~" if summary.drifted else "") + ("!" if summary.incredible else "")
    time_line = [Quantity(tuple(summary.time), "estimate"), *([Quantity(marks)] if marks else [])]
    seconds = summary.time.median / 1e9
    rates = [
        Quantity(summary.flops / seconds, "flops") if summary.flops else None,
        Quantity(summary.bytes / seconds, "bandwidth") if summary.bytes else None,
        *(Quantity((amount / seconds, unit), "rate") for unit, amount in summary.amounts.items()),
        _of_peak(summary, measured),
    ]
    if summary.status != "ok":
        standing = [Quantity(f"⚠ {summary.status}"), Quantity(summary.max_error, "error")]
    elif base is not None and base.time is not None:
        standing = [Quantity(summary.time.median / base.time.median, "ratio")]
    else:
        standing = []
    return [line for line in (time_line, [*standing, *filter(None, rates)], variant) if line]


def _of_peak(summary: Summary, measured: Measured) -> Quantity | None:
    """``62 % of peak``; two digits however little it is."""
    own = measured.get(summary.column)
    share = fraction(summary, own) if own else None
    if share is None:
        return None
    digits = f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.2g}"
    return Quantity(f"{digits} % of peak")
