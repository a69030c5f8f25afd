"""The first page: which backend is the fastest for what on each machine, every case of it as a heat map, and all runs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence

from metalbench.results.dashboard.heatmap import Part, Standing, heatmap
from metalbench.results.dashboard.source import Source, run_path
from metalbench.results.dashboard.view import Entry, Grid, View, words
from metalbench.results.machines import described, same_machine
from metalbench.results.peaks import WORKLOAD as PEAKS
from metalbench.results.quantities import Quantity
from metalbench.results.record import Run
from metalbench.results.store import RunSummary

LISTED = 200  #: runs in the table, the newest
SHOWN = 12  #: runs side by side
BEST = ["workload", "machine", "fastest", "how sure", "next"]
LIST = ["run", "label", "machine", "began (UTC)", "suite", "state", "records"]


def view(source: Source) -> View:
    listed = source.runs()
    read = {run.id: run for run in source.store.load([summary.id for summary in listed[:LISTED]])}
    sides = [source.measured(run.id) for run in _shown(source, listed, read)]
    found = heatmap(sides, source.naming)
    advice = [(part, _advice(part)) for part in found.parts]
    content = {
        "follows": listed[0].state if listed else "",
        "answers": [(part, _by_backend(own)) for part, own in advice if own],
        "best": Grid("best", "Which backend", BEST, [_advised(one, part) for part, own in advice for one in own]),
        "map": found,
        "runs": Grid("runs", "Runs", LIST, [_listed(summary, read[summary.id]) for summary in listed[:LISTED]]),
        "more": len(listed) - len(read),
    }
    return View("overview.html", "Overview", content)


def runs(source: Source) -> list[Run]:
    """The newest run of each machine and suite, up to a dozen. One measured beside another is none: it may be of old code."""
    return _shown(source, source.runs(), {})


def _shown(source: Source, listed: Sequence[RunSummary], read: Mapping[str, Run]) -> list[Run]:
    """``read``: runs by their id that needn't be read again. Of a machine without a run among the newest only its newest counts."""
    hosts = {summary.host for summary in listed[:LISTED]}
    last = {summary.host: summary for summary in reversed(listed[LISTED:]) if summary.host not in hosts and summary.records}
    shown: dict[str, list[Run]] = {}  # suite → a run of each machine
    for summary in (*(summary for summary in listed[:LISTED] if summary.records), *last.values()):
        run = read.get(summary.id) or source.store.run(summary.id)
        alike = shown.setdefault(run.suite(), [])
        if not run.beside and not any(same_machine(run.host, other.host) for other in alike):
            alike.append(run)
    return sorted((run for alike in shown.values() for run in alike), key=lambda run: -run.started)[:SHOWN]


class Advice:
    """Which backend a run found the fastest for a workload. ``columns``: it, and those that were tied with it in every case."""

    def __init__(self, workload: str, cases: Sequence[Standing]) -> None:
        self.workload, self.cases = workload, cases
        columns = dict.fromkeys(name for case in cases for name, summary in case.by_column.items() if summary.ranked)
        order = sorted(columns, key=lambda name: (-self._led(name), self._pace(name)))
        won = [case.front for case in cases if order[0] in case.front]
        self.columns = [name for name in order if all(name in front for front in won) and self._led(name) == len(won)]
        self.next = next((name for name in order if name not in self.columns), "")

    @property
    def certainty(self) -> str:
        if not any(case.sure for case in self.cases):
            return "not sure, from a single launch"
        if not self.next and len(self.columns) == 1:
            return "the only one with right answers"
        led, count = self._led(self.columns[0]), len(self.cases)
        ties = sum(case.front > {self.columns[0]} for case in self.cases if self.columns[0] in case.front)
        said = "in its only case" if count == 1 else f"in all {count} cases" if led == count else f"in {led} of {count} cases"
        return f"{said}, {'all' if ties == led else ties} of them tied" if ties and count > 1 else f"{said}, tied" if ties else said

    @property
    def distance(self) -> float | None:
        """How many times as long the next takes: the geometric mean of the cases that both have."""
        pairs = [(case.by_column.get(self.columns[0]), case.by_column.get(self.next)) for case in self.cases]
        logs = [math.log(b.median / a.median) for a, b in pairs if a and b and a.ranked and b.ranked and a.median and b.median]
        return math.exp(statistics.fmean(logs)) if logs else None

    def _led(self, column: str) -> int:
        return sum(column in case.front for case in self.cases)

    def _pace(self, column: str) -> float:
        """The mean logarithm of its times relative to the best: what decides where as many cases were led."""
        found = [(case.by_column.get(column), case.best) for case in self.cases]
        return statistics.fmean(
            math.log(own.median / best.median) for own, best in found if own and own.ranked and own.median and best and best.median
        )


def _advice(part: Part) -> list[Advice]:
    """A workload each that has right answers. Nobody chooses a backend for the peaks, which only tell how near others come."""
    answered = {workload: [case for case in cases if case.best] for workload, cases in part.standings.items() if workload != PEAKS}
    return [Advice(workload, cases) for workload, cases in answered.items() if cases]


def _by_backend(advice: Sequence[Advice]) -> dict[str, list[str]]:
    """The fastest, or those that are tied → for which workloads."""
    found: dict[str, list[str]] = {}
    for one in advice:
        found.setdefault(" or ".join(one.columns), []).append(one.workload)
    return found


def _advised(found: Advice, part: Part) -> list[Entry]:
    after = f"{found.next}, {Quantity(found.distance, 'ratio')} the time" if found.distance else found.next
    return [
        words(found.workload),
        words(part.title, part.href),
        words(" or ".join(found.columns)),
        words(found.certainty),
        Entry([after], found.distance) if found.next else Entry(["–"], None),
    ]


def _listed(summary: RunSummary, run: Run) -> list[Entry]:
    began = time.strftime("%Y-%m-%d %H:%M", time.gmtime(summary.started))
    return [
        words(summary.id, run_path(summary.id)),
        words(summary.label),
        words(described(run.host)),
        words(began),
        words(run.suite()),
        words(summary.state),
        Entry([str(summary.records)], summary.records),
    ]
