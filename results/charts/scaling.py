"""How time grows with the size of the work: a chart a family of cases that are equal but for sizes, a line a column and variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt

from metalbench.results.charts.axes import TIMES, brief, logarithmic
from metalbench.results.charts.figure import Figure
from metalbench.results.charts.style import Rows, by_column, chart_name, columns, dashed, distinct, filled, form
from metalbench.results.layout import Naming
from metalbench.results.quantities import Quantity, printable
from metalbench.results.summary import Summary

NAMED = 8  #: sizes at most that each have a mark of their own


class Axis(NamedTuple):
    """What the cells of a family differ in. ``of``: cell's key → its place; ``fixed``: the parameters that are the same in all."""

    title: str
    format: str
    of: dict[str, float]
    fixed: Mapping[str, object]


def figures(summaries: Sequence[Summary], naming: Naming) -> list[Figure]:
    """One of each family."""
    order, drawn = columns(summaries), families(summaries)
    names = distinct([chart_name("scaling", family[0].cell.workload, *_words(family[0]).values()) for _, family in drawn])
    return [_figure(chart_name(name), family, axis, order, naming) for name, (axis, family) in zip(names, drawn, strict=True)]


def families(summaries: Sequence[Summary]) -> list[tuple[Axis, list[Summary]]]:
    """Those in which one line at least has two sizes, in the order of the run."""
    found: dict[tuple[object, ...], list[Summary]] = {}
    for summary in summaries:
        if summary.medians:
            found.setdefault(_family(summary), []).append(summary)
    return [(axis, family) for family in found.values() if (axis := _axis(family)) and _grows(family, axis)]


def _figure(name: str, family: Sequence[Summary], axis: Axis, order: Sequence[str], naming: Naming) -> Figure:
    rows = [_row(summary, axis, naming) for summary in family]
    data = {"right": [row for row in rows if row["status"] == "ok"], "doubtful": [row for row in rows if row["status"] != "ok"]}
    workload = printable(family[0].cell.workload)
    fixed = ", ".join(printable(f"{parameter}={_said(value)}") for parameter, value in axis.fixed.items())
    title = f"{workload}: time of a call by {axis.title}{f'; {fixed}' if fixed else ''}"
    title += "; hollow: wrong answers and fallbacks" if data["doubtful"] else ""
    slowest = max(summary.median or 0.0 for summary in family)
    description = (
        f"{title}. {len({axis.of[summary.cell.key()] for summary in family})} sizes by {', '.join(columns(family))}; the longest time is "
        f"{Quantity(slowest, 'duration')}."
    )
    return Figure(name, title, _spec(data, axis, order), description)


def _spec(data: dict[str, Rows], axis: Axis, order: Sequence[str]) -> dict[str, Any]:
    rows = data["right"] + data["doubtful"]
    sizes = sorted({row["size"] for row in rows})
    across, marks = logarithmic(sizes)
    size = alt.X(
        "size:Q", title=axis.title, scale=across, axis=alt.Axis(values=sizes if len(sizes) <= NAMED else marks, format=axis.format)
    )
    up, marks = logarithmic(_reach(rows))
    time = alt.Y("time:Q", title="time of a call", scale=up, axis=alt.Axis(values=marks, labelExpr=TIMES))
    colour, shape = by_column(order, (row["column"] for row in rows))
    dash = dashed("variant", sorted({row["variant"] for row in rows}))
    told = [alt.Tooltip(f"{field}:N") for field in ("case", "column", "variant", "estimate", "status")]
    right, doubtful = alt.Chart(alt.NamedData("right")), alt.Chart(alt.NamedData("doubtful"))
    spec = form(
        right.mark_rule(opacity=0.5, clip=True).encode(x=size, y=alt.Y("low:Q", title="time of a call"), y2="high:Q", color=colour),
        right.mark_line(strokeWidth=1.8).encode(x=size, y=time, color=colour, strokeDash=dash),
        right.mark_point(filled=True, size=55, opacity=1).encode(x=size, y=time, color=colour, shape=shape, tooltip=told),
        doubtful.mark_point(filled=False, size=55).encode(x=size, y=time, color=colour, shape=shape, tooltip=told),
        height=320,
    )
    return filled(spec, data)


def _reach(rows: Rows) -> list[float]:
    """The ends of the axis: of intervals from two launches, which may reach anywhere, no more than doubles the times themselves."""
    times = [row["time"] for row in rows]
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    return [max(low, min(times) / 2), min(high, 2 * max(times))]


def _row(summary: Summary, axis: Axis, naming: Naming) -> dict[str, Any]:
    assert summary.time is not None
    median, low, high = summary.time
    return {
        "size": axis.of[summary.cell.key()],
        "time": brief(median),
        "low": brief(low if low is not None else median),
        "high": brief(high if high is not None else median),
        "column": printable(summary.column),
        "variant": printable(summary.cell.variant),
        "case": printable(naming(summary.cell)),
        "estimate": str(Quantity(tuple(summary.time), "estimate")),
        "status": summary.status,
    }


def _words(summary: Summary) -> dict[str, str]:
    """The parameters that say what is done, not how much of it: texts and switches."""
    return {name: _said(value) for name, value in summary.cell.case.items() if isinstance(value, str | bool)}


def _said(value: object) -> str:
    """As ``--case`` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _family(summary: Summary) -> tuple[object, ...]:
    cell = summary.cell
    return cell.workload, cell.version, cell.protocol, cell.policy, *sorted(_words(summary).items())


def _axis(family: Sequence[Summary]) -> Axis | None:
    """The parameter that varies, or those that do if they are one number in each case; else FLOPs or bytes, if all have them."""
    cases = {summary.cell.key(): summary.cell.case for summary in family}
    names = dict.fromkeys(name for case in cases.values() for name in case)
    varying = [name for name in names if len({case.get(name) for case in cases.values()}) > 1]
    fixed = {name: case[name] for case in list(cases.values())[:1] for name in case if name not in varying}
    alike = {key: {case.get(name) for name in varying} for key, case in cases.items()}
    numbers = {key: float(value) for key, found in alike.items() for value in found if isinstance(value, int | float) and value > 0}
    if varying and len(numbers) == len(cases) and all(len(found) == 1 for found in alike.values()):
        return Axis(printable(" = ".join(varying)), "~r", numbers, fixed)
    for title, work in (("FLOPs a call", "flops"), ("bytes a call", "bytes")):
        amounts = {summary.cell.key(): float(amount) for summary in family if (amount := getattr(summary, work))}
        if varying and len(amounts) == len(cases):
            return Axis(title, ".3~s", amounts, fixed)
    return None


def _grows(family: Sequence[Summary], axis: Axis) -> bool:
    sizes: dict[tuple[str, str], set[float]] = {}
    for summary in family:
        if summary.ranked:
            sizes.setdefault((summary.column, summary.cell.variant), set()).add(axis.of[summary.cell.key()])
    return any(len(found) > 1 for found in sizes.values())
