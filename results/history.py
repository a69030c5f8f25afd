"""The history of a cell on a machine: one point a run, and the runs at which its level changed. Pure."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from metalbench.results.changepoints import change_points, outside
from metalbench.results.layout import Field, Naming, Report, Table, text
from metalbench.results.quantities import Quantity
from metalbench.results.record import Cell, Status

State = Literal["confirmed", "unconfirmed"]

BARS = "▁▂▃▄▅▆▇█"
GAP = "·"  #: a run without a right answer in the sparkline
LEGEND = (
    "A series is a cell on one machine; versions are noted where they change and do not part it. A change of level is named by the first "
    "run that shows it, newest first, with its 95 % interval in %. Unconfirmed: only the newest run lies outside of the present level; "
    "`bench history --confirm` measures again, and one run alone is never an alert. In the sparklines · is a run without a right answer."
)


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A run's result for the cell. ``medians`` are ns per call, one a launch; ``started`` is seconds since 1970, UTC."""

    run: str
    started: float
    host: str
    medians: list[float]
    status: Status = "ok"
    revision: str = ""  #: git commit of the working folder, with "-dirty" where it had changes; "" where there was none
    facts: dict[str, str] = {}  #: what may differ between runs: versions, and the system's build

    @property
    def time(self) -> float | None:
        """ns per call: the median over launches. None where there is no right answer, or no time."""
        return statistics.median(self.medians) if self.status == "ok" and self.medians else None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A new level that begins with ``run``. ``ratio`` is the new level over the old, above 1 is slower."""

    run: str
    started: float
    state: State
    ratio: float
    low: float | None  #: of its 95 % interval; None while unconfirmed
    high: float | None
    strength: float | None  #: the evidence over what noise reaches; None while unconfirmed
    previous_run: str  #: the last one at the old level
    revision_before: str
    revision: str
    versions: dict[str, tuple[str, str]]  #: name → the values before and at the change, of the facts that differ; "" where it had none

    @property
    def slower(self) -> bool:
        return self.ratio > 1


class History:
    """A cell's points on one host, in time order, and the changes of its level, oldest first.

    Points without a right answer are shown and take no part. The newest that counts is a suspect, an unconfirmed change, if it alone lies
    clearly outside of the present level (``changepoints.outside``); a second such run in succession makes it a change.
    """

    def __init__(self, cell: Cell, points: Sequence[Point]) -> None:
        self.cell = cell
        self.points = sorted(points, key=lambda point: point.started)

    @cached_property
    def timed(self) -> list[tuple[Point, float]]:
        """The points that count, with their times in ns."""
        return [(point, point.time) for point in self.points if point.time is not None]

    @cached_property
    def changes(self) -> list[Change]:
        values = [value for _, value in self.timed]
        found = change_points(values)
        changes = [self._change(at.start, "confirmed", at.ratio, (at.low, at.high), at.strength) for at in found]
        level = values[found[-1].start if found else 0 : -1]
        if level and outside(level, values[-1]):
            changes.append(self._change(len(values) - 1, "unconfirmed", values[-1] / statistics.median(level), (None, None), None))
        return changes

    @property
    def suspect(self) -> Change | None:
        """What a confirming run would decide."""
        return self.changes[-1] if self.changes and self.changes[-1].state == "unconfirmed" else None

    @property
    def level(self) -> float | None:
        """ns per call: the median of the runs since the last confirmed change, without a suspect; None where nothing was timed."""
        since = max((change.started for change in self.changes if change.state == "confirmed"), default=-math.inf)
        suspect = self.suspect.run if self.suspect else None
        present = [value for point, value in self.timed if point.started >= since and point.run != suspect]
        return statistics.median(present) if present else None

    def _change(
        self, index: int, state: State, ratio: float, interval: tuple[float | None, float | None], strength: float | None
    ) -> Change:
        (before, _), (point, _) = self.timed[index - 1], self.timed[index]
        names = dict.fromkeys([*before.facts, *point.facts])
        versions = {name: (before.facts.get(name, ""), point.facts.get(name, "")) for name in names}
        return Change(
            run=point.run,
            started=point.started,
            state=state,
            ratio=ratio,
            low=interval[0],
            high=interval[1],
            strength=strength,
            previous_run=before.run,
            revision_before=before.revision,
            revision=point.revision,
            versions={name: (old, new) for name, (old, new) in versions.items() if old != new},
        )


def sparkline(history: History, width: int = 40) -> str:
    """The newest ``width`` points as bars, from the fastest to the slowest of them on a logarithmic scale.

    The scale spans 10 % at least, so that noise looks like noise.
    """
    times = [point.time for point in history.points[-width:]]
    logs = [math.log(value) for value in times if value is not None]
    if not logs:
        return GAP * len(times)
    low, span = min(logs), max(max(logs) - min(logs), math.log(1.1))
    return "".join(GAP if value is None else BARS[min(7, int((math.log(value) - low) / span * 8))] for value in times)


def report(histories: Sequence[History], naming: Naming) -> Report:
    """One table with a row a series."""
    changed = sum(any(change.state == "confirmed" for change in history.changes) for history in histories)
    suspects = sum(history.suspect is not None for history in histories)
    facts = [("series", f"{len(histories)}, {changed} with a change of level, {suspects} with one that is unconfirmed")]
    rows = [
        [
            _name(history, naming),
            text(
                f"{len(history.timed)} of {len(history.points)}" if len(history.timed) < len(history.points) else str(len(history.points))
            ),
            [[Quantity(history.level, "duration")]],
            [line for change in reversed(history.changes) for line in _described(change)] or text("none"),
        ]
        for history in histories
    ]
    return Report("History", facts, LEGEND, [Table("Series", ["series", "runs", "level now", "changes, newest first"], rows)])


def document(histories: Sequence[History]) -> list[dict[str, Any]]:
    """The same as data for JSON: plain values, times in ns; null where there is none."""
    return [
        {
            "cell": msgspec.to_builtins(history.cell),
            "host": history.points[-1].host if history.points else None,
            "level_ns": history.level,
            "changes": msgspec.to_builtins(history.changes),
            "points": [msgspec.to_builtins(point) | {"median_ns": point.time} for point in history.points],
        }
        for history in histories
    ]


def _name(history: History, naming: Naming) -> Field:
    cell = history.cell
    lines = [f"{cell.workload} {naming(cell)}", f"{cell.column_name} {cell.variant}, {cell.protocol}", sparkline(history)]
    return [[Quantity(line)] for line in lines]


def _described(change: Change) -> Field:
    """A line for the size, and one for the run, the revisions and the versions at which it came."""
    interval = f" ({_percent(change.low)} … {_percent(change.high)})" if change.low is not None and change.high is not None else ""
    size = f"{_percent(change.ratio)} %{interval} {'slower' if change.slower else 'faster'}, {change.state}"
    day = time.strftime("%Y-%m-%d", time.gmtime(change.started))
    revisions = f"{_short(change.revision_before)} → {_short(change.revision)}" if change.revision != change.revision_before else ""
    versions = [f"{name} {old or 'none'} → {new or 'none'}" for name, (old, new) in change.versions.items()]
    return [[Quantity(size)], [Quantity("; ".join(filter(None, [f"run {change.run} of {day}", revisions, *versions])))]]


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}".replace("-", "\N{MINUS SIGN}")


def _short(revision: str) -> str:
    """Seven digits of a commit, as git shows it."""
    commit, dirty, _ = revision.partition("-dirty")
    return commit[:7] + dirty if commit else "no revision"
