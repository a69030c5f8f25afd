"""Two runs side by side, the worst first, and which pairs of runs are worth a look."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from metalbench.results.charts import intervals
from metalbench.results.comparison import Change, Comparison, IncomparableError, compare
from metalbench.results.comparison_report import interval, report
from metalbench.results.dashboard.source import Source, cell_path, comparison_path, run_path, slug
from metalbench.results.dashboard.view import Entry, Grid, View, grid, shown, words
from metalbench.results.layout import full_name
from metalbench.results.machines import described
from metalbench.results.quantities import Quantity
from metalbench.results.record import Host, Record, Run
from metalbench.results.store import RunSummary

LOOKED_AT = 100  #: runs, the newest, among which pairs are found
SHOWN = 30  #: pairs of a machine, the newest
OFFERED = 200  #: runs that can be chosen from, the newest
NOTHING = Entry(["–"], None)
PAIRS = ["candidate", "base", "measured", "labels", "machine", "suite", "began (UTC)"]
CELLS = ["cell", "base", "candidate", "ratio", "verdict", "status", "peak memory", "versions"]


class Pair(NamedTuple):
    """``in_turn``: whether both were measured beside each other, launch by launch."""

    base: RunSummary
    candidate: RunSummary
    in_turn: bool
    suite: str


def view(source: Source, base: str, candidate: str) -> View:
    """The runs with these slugs, every cell of them."""
    before, after = (_side(source, source.run_called(name)) for name in (base, candidate))
    sides = [(f"{side} {run.id}", run_path(run.id)) for side, (run, _) in (("Base", before), ("Candidate", after))]
    title = f"Run {after[0].id} compared to {before[0].id}"
    try:
        found = compare(before, after)
    except IncomparableError as error:
        return View("compare.html", title, {"sides": sides, "refusal": str(error)})
    told = report(found, source.naming)
    content = {
        "sides": [*sides, ("The other way round", comparison_path(after[0].id, before[0].id))],
        "refusal": "",
        "facts": [(name, value) for name, value in told.facts if name != "shown"],  # the page has room for all
        "figure": intervals.figure(found, source.naming) if any(change.time for change in found.changes) else None,
        "cells": Grid("cells", "Cells, the worst first", CELLS, [_row(found, change, source) for change in found.changes]),
        "missing": grid("missing", told.tables[-1]) if found.missing else None,
        "legend": told.legend,
    }
    return View("compare.html", title, content)


def _side(source: Source, run_id: str) -> tuple[Run, list[Record]]:
    run, summaries = source.measured(run_id)
    return run, [record for summary in summaries for record in summary.records]


def _row(found: Comparison, change: Change, source: Source) -> list[Entry]:
    judged, memory, cell = change.time, change.memory, change.candidate.cell
    peak = f"{Quantity(memory.ratio, 'ratio')} {change.memory_verdict}" if memory else ""
    return [
        words(full_name(cell, source.naming), cell_path(found.candidate.id, cell)),
        *(shown(Quantity(side.median, "duration")) for side in (change.base, change.candidate)),
        Entry([interval(judged)], judged.ratio) if judged else NOTHING,
        words(judged.verdict.upper()) if judged else NOTHING,
        words(change.status or "ok"),
        Entry([peak, change.memory_kind], memory.ratio) if memory else NOTHING,
        words(change.versions),
    ]


def index(source: Source) -> View:
    """Pairs worth a look; a server behind the page compares any two."""
    hosts = {host.key: host for host in source.store.hosts()}
    runs = source.runs()
    content = {
        "pairs": Grid("pairs", "Pairs worth a look", PAIRS, [_pair(pair, hosts[pair.candidate.host]) for pair in pairs(source)]),
        "runs": [(slug(run.id), _called(run, hosts[run.host])) for run in runs[:OFFERED]],
        "more": max(0, len(runs) - OFFERED),
    }
    return View("compare_index.html", "Compare", content)


def pairs(source: Source) -> list[Pair]:
    """Runs that were measured in turn, then each run with the one before it of its suite and host, the newest first.

    A system's update makes another host, whose runs aren't held against those before.
    """
    newest = [run for run in source.runs()[:LOOKED_AT] if run.records]
    read = {run.id: run for run in source.store.load([run.id for run in newest])}
    return [*_in_turn(newest, read), *_in_succession(newest, read)]


def _in_turn(newest: Sequence[RunSummary], read: dict[str, Run]) -> Iterator[Pair]:
    """The base began first."""
    for place, candidate in enumerate(newest):
        for base in newest[place + 1 :]:
            if read[candidate.id].beside == base.id and read[base.id].beside == candidate.id:
                yield Pair(base, candidate, in_turn=True, suite=read[candidate.id].suite())


def _in_succession(newest: Sequence[RunSummary], read: dict[str, Run]) -> Iterator[Pair]:
    suites = {run.id: read[run.id].suite() for run in newest}
    alone = [run for run in newest if not read[run.id].beside]
    shown_of: Counter[str] = Counter()
    for place, candidate in enumerate(alone):
        alike = (run for run in alone[place + 1 :] if run.host == candidate.host and suites[run.id] == suites[candidate.id])
        base = next(alike, None)
        if base is not None and shown_of[candidate.host] < SHOWN:
            shown_of[candidate.host] += 1
            yield Pair(base, candidate, in_turn=False, suite=suites[candidate.id])


def _pair(pair: Pair, host: Host) -> list[Entry]:
    base, candidate = pair.base, pair.candidate
    return [
        words(candidate.id, comparison_path(base.id, candidate.id)),
        words(base.id),
        words("in turn" if pair.in_turn else "one after the other"),
        words(f"{base.label or 'none'} → {candidate.label or 'none'}" if base.label or candidate.label else ""),
        words(described(host)),
        words(pair.suite),
        words(_minute(candidate.started)),
    ]


def _called(run: RunSummary, host: Host) -> str:
    return f"{run.id}{f' “{run.label}”' if run.label else ''}, {_minute(run.started)}, {described(host)}"


def _minute(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))
