"""The heat map: a row a case, a column a backend of a run, and how long each takes as a multiple of the fastest of its run.

The numbers, stars and marks are those of ``bench show``. The page's script reads them from the table and compares with another column.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from metalbench.results.dashboard.source import cell_path, run_path
from metalbench.results.layout import Naming
from metalbench.results.machines import same_machine, short_names
from metalbench.results.quantities import Quantity
from metalbench.results.ranking import ranking
from metalbench.results.record import BROKEN, TIMED, Run
from metalbench.results.summary import Side, Summary
from metalbench.results.tables import chosen, telling

STEPS = (1.05, 1.5, 3.0, 10.0)  #: ratios at which the colour changes, and their reciprocals
REASON = 200  #: letters of a reason in a square's description
Work = tuple[object, ...]


class Standing(NamedTuple):
    """What a run has of one case. ``best``: the fastest right answer; ``front``: the columns of it and of every tie for it.

    ``sure``: whether it was told by several launches; from one nothing gets a star.
    """

    by_column: dict[str, Summary]
    best: Summary | None
    front: set[str]
    sure: bool


class Square(NamedTuple):
    """``ns`` is None where the time takes part in no ratio. ``detail``: what doesn't fit into the square."""

    text: str
    marks: str
    look: str
    detail: str
    href: str
    ns: float | None
    status: str
    variant: str
    version: str


class Column(NamedTuple):
    name: str
    versions: list[str]


class Part(NamedTuple):
    """The columns of one run, below its machine. ``standings``: workload → how its cases stand, by each backend's own choice."""

    machine: str
    suite: str
    title: str
    began: str
    href: str
    columns: list[Column]
    standings: dict[str, list[Standing]]


class Row(NamedTuple):
    """``variant`` is empty where each backend has its own choice; ``split``: whether rows by variant follow, as several were measured."""

    case: str
    dtype: str
    variant: str
    split: bool
    squares: list[Square | None]


class HeatMap(NamedTuple):
    """``groups``: workload → its rows."""

    parts: list[Part]
    groups: dict[str, list[Row]]
    steps: Sequence[float]


def heatmap(sides: Sequence[Side], naming: Naming) -> HeatMap:
    """Of one run, or of several side by side. Work of another version, protocol or precision policy has rows of its own."""
    parts = _parts(sides)
    named = telling(naming, [summary.cell for _, own in sides for summary in own])
    works: dict[Work, list[list[Summary]]] = {}
    for place, (_, own) in enumerate(sides):
        for summary in own:
            works.setdefault(_work(summary), [[] for _ in sides])[place].append(summary)
    groups: dict[str, list[Row]] = {}
    for found in works.values():
        cell = next(summary.cell for own in found for summary in own)
        rows = groups.setdefault(cell.workload, [])
        variants = dict.fromkeys(summary.cell.variant for own in found for summary in own)
        split = any(len(own) > len({summary.column for summary in own}) for own in found)
        case, dtype = named(cell), str(cell.case.get("dtype", ""))
        standings = [standing(own) for own in found]
        for part, here in zip(parts, standings, strict=True):
            part.standings.setdefault(cell.workload, []).append(here)
        rows.append(Row(case, dtype, "", split, list(_squares(sides, parts, standings))))
        for variant in variants if split else ():
            alike = [standing([summary for summary in own if summary.cell.variant == variant]) for own in found]
            rows.append(Row(case, dtype, variant, split, list(_squares(sides, parts, alike))))
    return HeatMap(parts, groups, STEPS)


def standing(summaries: Sequence[Summary]) -> Standing:
    """Of the cells of a run that do the same: how each backend's own choice of variant compares."""
    by_column = chosen(summaries)
    ranked = ranking(by_column.values())
    if not ranked:
        return Standing(by_column, None, set(), sure=False)
    best, _, sure = ranked[0]
    front = {best.column} | {one.summary.column for one in ranked if one.star}
    return Standing(by_column, best, front, sure)


def machine_names(runs: Sequence[Run]) -> dict[str, str]:
    """Run id → its machine in a few words, the same for all runs of it."""
    first = {run.id: next(other for other in runs if same_machine(run.host, other.host)) for run in runs}
    names = short_names(list({run.id: run for run in first.values()}.values()))
    return {run.id: names[first[run.id].id] for run in runs}


def version(summary: Summary) -> str:
    """The framework's, with its name, which its device names first among its facts."""
    return next((f"{name} {value}" for name, value in summary.facts.items()), "")


def look(ratio: float) -> str:
    """The class of a square that takes ``ratio`` of the time it is compared with: ``slower-3``, ``even``, ``faster-1``."""
    step = sum(max(ratio, 1 / ratio) >= edge for edge in STEPS)
    return f"{'slower' if ratio > 1 else 'faster'}-{step}" if step else "even"


def _work(summary: Summary) -> Work:
    """What cells have in common that do the same."""
    cell = summary.cell
    return cell.workload, cell.version, cell.protocol, cell.policy, cell.case_text()


def _parts(sides: Sequence[Side]) -> list[Part]:
    machines = machine_names([run for run, _ in sides])
    several = [name for name in machines.values() if list(machines.values()).count(name) > 1]
    parts = []
    for run, own in sides:
        machine, suite = machines[run.id], run.suite()
        title = f"{machine}, {suite or run.label or run.id}" if machine in several else machine
        versions: dict[str, dict[str, None]] = {}
        for summary in own:
            versions.setdefault(summary.column, {}).update({version(summary): None} if version(summary) else {})
        began = time.strftime("%Y-%m-%d", time.gmtime(run.started))
        columns = [Column(name, list(found)) for name, found in versions.items()]
        parts.append(Part(machine, suite, title, began, run_path(run.id), columns, {}))
    return parts


def _squares(sides: Sequence[Side], parts: Sequence[Part], standings: Sequence[Standing]) -> Iterator[Square | None]:
    """A square a column of all runs, None where nothing was measured."""
    for (run, _), part, here in zip(sides, parts, standings, strict=True):
        for column in part.columns:
            summary = here.by_column.get(column.name)
            yield None if summary is None else _square(run, summary, here)


def _square(run: Run, summary: Summary, here: Standing) -> Square:
    marks = ("~" if summary.drifted else "") + ("!" if summary.incredible else "")
    if summary.ranked and summary.median and here.best and here.best.median:
        ratio = summary.median / here.best.median
        words, appearance = str(Quantity(ratio, "ratio")), look(ratio)
        marks = ("★" if here.sure and summary.column in here.front else "") + marks
    elif summary.status in TIMED:
        words, appearance = f"⚠ {summary.status}", "odd"
    else:
        words, appearance = (f"✕ {summary.status}", "broken") if summary.status in BROKEN else (f"– {summary.status}", "absent")
    details = [
        str(Quantity(tuple(summary.time), "estimate")) if summary.time else "",
        summary.cell.variant,
        version(summary),
        summary.reason if len(summary.reason) <= REASON else f"{summary.reason[:REASON]} …",
    ]
    return Square(
        text=words,
        marks=marks,
        look=appearance,
        detail=", ".join(filter(None, details)),
        href=cell_path(run.id, summary.cell),
        ns=summary.median if summary.ranked else None,
        status=summary.status,
        variant=summary.cell.variant,
        version=version(summary),
    )
