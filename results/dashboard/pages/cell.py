"""The page of a cell: all that a run knows of it, what people ask first at the top, and the commands that repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from metalbench.results import commands
from metalbench.results.charts import distribution, sequence
from metalbench.results.dashboard.facts import Facts, doubts, known, sections
from metalbench.results.dashboard.source import Source, cell_path
from metalbench.results.dashboard.view import Entry, Grid, NoPageError, View, shown, words
from metalbench.results.layout import full_name
from metalbench.results.peaks import WORKLOAD, fraction, peaks
from metalbench.results.quantities import Quantity
from metalbench.results.ranking import Ranked, ranking
from metalbench.results.record import Cell, Record, Run
from metalbench.results.summary import Summary, summarise

FEW = 5000  #: records of a run that is read whole, and kept for the pages of its other cells
LOG = 4000  #: letters of logs on the page, the last ones, shared by launches that printed different ones
REASON = 200  #: letters of a reason in a table
NOTHING = Entry(["–"], None)
ALIKE = ["backend", "variant", "median time a call", "to the fastest", "status", "error"]
LAUNCH = [
    *("launch", "median", "samples", "calls a sample", "first call", "compile cache", "warm-up calls", "empty call", "stopped by"),
    *("rejected", "asleep", "sentinel before", "sentinel after", "status"),
]


class Log(NamedTuple):
    """What launches printed. ``left_out``: how many letters before ``text``."""

    launches: str
    text: str
    left_out: int


def view(source: Source, name: str, key: str) -> View:
    run, summary, alike, roofs = _read(source, source.run_called(name), key)
    peak = peaks(roofs).get(summary.cell.column)
    share = fraction(summary, peak) if peak is not None else None
    rankable = summary.ranked and summary.cell.workload != WORKLOAD and bool(summary.flops or summary.bytes)
    ranked = ranking(alike)
    return View(
        "cell.html",
        full_name(summary.cell, source.naming),
        {
            "run": run,
            "cell": summary.cell,
            "verdict": _verdict(summary, ranked),
            "figures": [chart.figure(summary) for chart in (distribution, sequence)] if summary.medians else [],
            "alike": Grid("alike", "This case by every backend and variant of the run", ALIKE, _alike(run, summary, alike, ranked)),
            "launches": Grid("launches", "Launches", LAUNCH, [_launch(record, summary) for record in summary.records]),
            "sections": sections(run, summary, share),
            "logs": _logs(summary.records),
            "right": summary.status == "ok",
            "commands": _commands(run, summary.cell, peaks_wanted=rankable and share is None),
        },
    )


def _read(source: Source, run_id: str, key: str) -> tuple[Run, Summary, list[Summary], list[Summary]]:
    """The run, the cell, all that do the same, and those that measured the peaks of its column."""
    whole = source.store.count(run_id) <= FEW
    run, summaries = source.measured(run_id) if whole else _part(source, run_id, key)
    summary = next((summary for summary in summaries if summary.cell.key() == key), None)
    if summary is None:
        raise NoPageError(f"Run {run_id} has no record of the cell {key}.")
    work = _work(summary.cell)
    return run, summary, [other for other in summaries if _work(other.cell) == work], [s for s in summaries if _roof(s.cell, summary.cell)]


def _part(source: Source, run_id: str, key: str) -> tuple[Run, list[Summary]]:
    """Of a run that is large, what the page of a cell needs."""
    run = source.store.run(run_id)
    cells = {cell.key(): cell for cell in run.cells()}
    mine = cells.get(key)
    wanted = [other for other, cell in cells.items() if mine is not None and (_work(cell) == _work(mine) or _roof(cell, mine))]
    return run, summarise(run, [record for other in wanted for record in source.store.records(run_id, other)])


def _roof(cell: Cell, under: Cell) -> bool:
    """Whether one measured a peak that the other is held against."""
    return cell.workload == WORKLOAD and cell.column == under.column


def _work(cell: Cell) -> tuple[object, ...]:
    """What is the same in cells that do the same."""
    return cell.workload, cell.version, cell.case, cell.protocol, cell.policy


def _verdict(summary: Summary, ranked: Sequence[Ranked]) -> Facts:
    """The time, its standing, the status, and what casts doubt on the time."""
    launches = len(summary.medians)
    basis = f"95 % interval over {launches} launches" if launches > 1 else "from a single launch"
    time = f"{Quantity(tuple(summary.time), 'estimate')}, {basis}" if summary.time else ""
    status = f"{summary.status}: {summary.reason}" if summary.reason else summary.status
    return known([("median time a call", time), ("standing", _standing(summary, ranked)), ("status", status), *doubts(summary)])


def _standing(summary: Summary, ranked: Sequence[Ranked]) -> str:
    place = next((place for place, one in enumerate(ranked) if one.summary is summary), None)
    if place is None:
        return "shown, and not ranked" if summary.medians else ""
    if len(ranked) == 1:
        return "the only right answer to this case in this run"
    best = ranked[0].summary
    behind = f"{Quantity(ranked[place].ratio, 'ratio')} the time of {best.column} {best.cell.variant}" if place else "the fastest"
    return f"{behind}{', tied with it' if place and ranked[place].star else ''}; {place + 1} of {len(ranked)} for this case"


def _alike(run: Run, summary: Summary, alike: Sequence[Summary], ranked: Sequence[Ranked]) -> list[list[Entry]]:
    standing = {one.summary.cell.key(): one for one in ranked}
    rows = []
    for other in alike:
        key = other.cell.key()
        name = Entry([other.column, "this cell"], other.column) if other is summary else words(other.column, cell_path(run.id, other.cell))
        ratio = shown(Quantity(standing[key].ratio, "ratio")) if key in standing else NOTHING
        if key in standing and standing[key].star:
            ratio = ratio._replace(lines=[f"{ratio.lines[0]} ★"])
        time = shown(Quantity(tuple(other.time), "estimate")) if other.time else NOTHING
        status = _status(other.status, other.reason)
        rows.append([name, words(other.cell.variant), time, ratio, status, shown(Quantity(other.max_error, "error"))])
    return rows


def _launch(record: Record, summary: Summary) -> list[Entry]:
    """A launch that has no samples has a status and its reason only."""
    found = record.measurement
    settled = "settled" if found.warmup_settled else "not settled"
    measured = [
        _time(summary.by_launch.get(record.launch)),
        shown(Quantity(len(found.spans_ns))),
        shown(Quantity(found.calls_per_sample)),
        _time(found.first_call_ns),
        words(found.compile_cache),
        Entry([f"{found.warmup_calls}, {settled}"], found.warmup_calls),
        _time(found.empty_call_ns),
        words(found.stop),
        shown(Quantity(found.rejected)),
        shown(Quantity(found.slept)),
        _time(found.sentinel_before_ns),
        _time(found.sentinel_after_ns),
    ]
    nothing = [NOTHING] * len(measured)
    return [shown(Quantity(record.launch)), *(measured if found.spans_ns else nothing), _status(found.status, found.reason)]


def _time(ns: float | None) -> Entry:
    return shown(Quantity(None if ns is None else float(ns), "duration"))


def _status(status: str, reason: str) -> Entry:
    """The reason on a line of its own, cut where it is long: the top of a cell's page has all of it."""
    cut = reason if len(reason) <= REASON else f"{reason[:REASON]} …"
    return Entry([status, cut] if reason else [status], status)


def _logs(records: Sequence[Record]) -> list[Log]:
    """Each once, with the launches that printed it."""
    printed: dict[str, list[str]] = {}
    for record in records:
        if log := record.measurement.log.strip("\n"):
            printed.setdefault(log, []).append(str(record.launch))
    share = LOG // max(1, len(printed))
    return [Log(", ".join(launches), log[-share:], max(0, len(log) - share)) for log, launches in printed.items()]


def _commands(run: Run, cell: Cell, *, peaks_wanted: bool) -> list[tuple[str, str]]:
    """What each does, and its line for a shell."""
    lines = [
        ("Measure it again", commands.repeated(run, cell)),
        ("Write a script that does the same work without metalbench, for a bug report", commands.script(run, cell)),
        ("Measure this workload beside the peaks that its speed is a fraction of", commands.with_peaks(run, cell) if peaks_wanted else []),
    ]
    return [(title, shlex.join(line)) for title, line in lines if line]
