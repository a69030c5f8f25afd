"""The history of a cell on a machine: a point a run, the levels between changes, and the changes with their size."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import altair as alt

from metalbench.results.charts.axes import UNITS, brief, unit_of
from metalbench.results.charts.figure import Figure
from metalbench.results.charts.style import FASTER, SLOWER, Rows, filled, form
from metalbench.results.history import Change, History, Point
from metalbench.results.layout import Naming, full_name
from metalbench.results.quantities import Quantity, format_duration, printable
from metalbench.results.statistics import estimate

SIDES: Mapping[Literal["left", "right"], int] = {"left": 3, "right": -3}  #: how its label is set, and pixels to the rule of a change
LEAST = 0.05  #: of the time, to either side of it: noise is to look like noise


def figure(history: History, naming: Naming) -> Figure:
    """Runs stand side by side in their order, each with the same room: they come in bursts. Nothing need have been timed."""
    unit = unit_of(history.timed[-1][1]) if history.timed else "ns"
    places = {point.run: place for place, point in enumerate(history.points)}
    timed = {point.run for point, _ in history.timed}
    data = {
        "runs": [_timed(point, value, places[point.run], unit) for point, value in history.timed],
        "doubtful": [_told(point, places[point.run]) | {"status": point.status} for point in history.points if point.run not in timed],
        "levels": _levels(history, places, unit),
        "changes": [_changed(change, places[change.run], len(places)) for change in history.changes],
    }
    values = [row["t"] for row in data["runs"]] or [1.0]
    low, high = min(values), max(values)
    low, high = min(low, low - 0.1 * (high - low), high * (1 - LEAST)), max(high, high + 0.1 * (high - low), low * (1 + LEAST))
    variables = {
        "ends": [brief(low), brief(high)],
        "last": len(places) - 0.5,
        "days": [_day(point.started, "%Y-%m-%d") for point in history.points],
    }
    name = printable(full_name(history.cell, naming))
    title = f"{name}: time of a call, run by run, and the levels between changes"
    title += "; ×: no right answer" if data["doubtful"] else ""
    return Figure("history", title, filled(_form(unit), data, variables), _described(name, history))


@cache
def _form(unit: str) -> dict[str, Any]:
    labels = alt.Axis(
        labelExpr="days[datum.value] || ''", tickMinStep=1, tickCount=8, ticks=False, grid=False, labelOverlap="greedy", labelFlush=False
    )
    place = alt.X("n:Q", title="runs in their order", scale=alt.Scale(domain=[-0.5, alt.ExprRef("last")], nice=False), axis=labels)
    title = f"time of a call, {unit}"
    value = alt.Y("t:Q", title=title, scale=alt.Scale(domain=alt.ExprRef("ends"), zero=False, nice=False), axis=alt.Axis(tickCount=6))
    told = [alt.Tooltip(f"{field}:N") for field in ("run", "began", "revision", "versions")]
    runs, doubtful, levels, changes = (alt.Chart(alt.NamedData(name)) for name in ("runs", "doubtful", "levels", "changes"))
    colour = alt.Color("direction:N", scale=alt.Scale(domain=["slower", "faster"], range=[SLOWER, FASTER]), legend=None)
    dash = alt.StrokeDash("state:N", scale=alt.Scale(domain=["confirmed", "unconfirmed"], range=[[1, 0], [4, 3]]), legend=None)
    what = [alt.Tooltip(f"{field}:N") for field in ("change", "run", "began", "revision", "versions")]
    zoom = alt.selection_interval(name="zoom", bind="scales", encodings=["x"])
    return form(
        runs.mark_rule(opacity=0.3, clip=True).encode(x=place, y=alt.Y("low:Q", title=title), y2="high:Q"),
        levels.mark_rule(strokeWidth=2, clip=True).encode(x=place, x2="to:Q", y=value),
        changes.mark_rule(strokeWidth=1.5, clip=True).encode(x=place, color=colour, strokeDash=dash, tooltip=what),
        runs.mark_point(filled=True, size=45, opacity=1, clip=True)
        .encode(x=place, y=value, tooltip=[alt.Tooltip("estimate:N", title="time"), *told])
        .add_params(zoom),
        doubtful.mark_point(shape="cross", filled=True, angle=45, size=60, color=SLOWER, opacity=1, clip=True).encode(
            x=place, y=alt.value("height"), yOffset=alt.value(-8), tooltip=[alt.Tooltip("status:N"), *told]
        ),
        *(
            changes.transform_filter(f"datum.side == '{side}'")
            .mark_text(align=side, baseline="bottom", dx=shift, dy=-4, clip=False)
            .encode(x=place, y=alt.value(0), text="label:N", color=colour, tooltip=what)
            for side, shift in SIDES.items()
        ),
        height=260,
    )


def _timed(point: Point, value: float, place: int, unit: str) -> dict[str, Any]:
    found = estimate(point.medians)
    ends = {"low": brief((found.low or value) / UNITS[unit]), "high": brief((found.high or value) / UNITS[unit])}
    return _told(point, place) | {"t": brief(value / UNITS[unit]), **ends, "estimate": str(Quantity(tuple(found), "estimate"))}


def _told(point: Point, place: int) -> dict[str, Any]:
    versions = printable(", ".join(f"{name} {value}" for name, value in point.facts.items()))
    began = _day(point.started, "%Y-%m-%d %H:%M UTC")
    return {"n": place, "run": printable(point.run), "began": began, "revision": printable(point.revision or "none"), "versions": versions}


def _levels(history: History, places: dict[str, int], unit: str) -> Rows:
    """The median of the runs from one confirmed change to the next; what is only suspected is part of no level."""
    edges = [0, *(places[change.run] for change in history.changes), *([] if history.suspect else [len(places)])]
    rows = []
    for start, end in pairwise(edges):
        values = [value for point, value in history.timed if start <= places[point.run] < end]
        if values:
            rows.append({"n": start - 0.5, "to": end - 0.5, "t": brief(statistics.median(values) / UNITS[unit])})
    return rows


def _changed(change: Change, place: int, count: int) -> dict[str, Any]:
    """Its label stands to the side where there is room."""
    size = _percent(change.ratio)
    interval = f" ({_percent(change.low)} … {_percent(change.high)})" if change.low is not None and change.high is not None else ""
    direction = "slower" if change.slower else "faster"
    before, after = change.revision_before or "none", change.revision or "none"
    return {
        "n": place - 0.5,
        "direction": direction,
        "state": change.state,
        "side": "left" if place < count / 2 else "right",
        "label": f"{size} %" if change.state == "confirmed" else f"{size} %, unconfirmed",
        "change": f"{size} %{interval} {direction}, {change.state}",
        "run": printable(change.run),
        "began": _day(change.started, "%Y-%m-%d %H:%M UTC"),
        "revision": printable(f"{before} → {after}" if before != after else after),
        "versions": printable(", ".join(f"{name} {old or 'none'} → {new or 'none'}" for name, (old, new) in change.versions.items())),
    }


def _described(name: str, history: History) -> str:
    told = [f"{_percent(change.ratio)} % at run {printable(change.run)} ({change.state})" for change in history.changes]
    level = f"; now {format_duration(history.level)}" if history.level is not None else ""
    return f"{name}: {len(history.timed)} of {len(history.points)} runs with a time{level}. Changes: {', '.join(told) or 'none'}."


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}".replace("-", "\N{MINUS SIGN}")


def _day(started: float, form: str) -> str:
    return time.strftime(form, time.gmtime(started))
