"""All cases against all columns of a run: which backend is fast at what, at a glance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from metalbench.results.charts.figure import Figure
from metalbench.results.charts.style import Rows, columns, distinct, filled, form, two_lines
from metalbench.results.layout import Naming
from metalbench.results.quantities import Quantity, printable
from metalbench.results.record import TIMED
from metalbench.results.summary import Summary
from metalbench.results.tables import chosen

STEP = 30  #: pixels of a case, whose name has two lines
FULL = 3  #: doublings at which the colour is full
FAST, MIDDLE, SLOW = "#5aa5e6", "#f3f1ec", "#ec8b45"  #: faster, the same, slower: all of them light enough for dark letters
UPRIGHT = 32  #: letters of all columns' names that have room side by side on a narrow page; more are turned


def figure(summaries: Sequence[Summary], naming: Naming, relative_to: str | None = None) -> Figure:
    """Times relative to the best of each case, or to the column or backend ``relative_to``, each by the backend's own choice of variant."""
    order = columns(summaries)
    cases: dict[tuple[object, ...], list[Summary]] = {}
    for summary in summaries:
        cell = summary.cell
        cases.setdefault((cell.workload, cell.version, cell.case_text(), cell.protocol, cell.policy), []).append(summary)
    names = distinct([_name(found[0], naming) for found in cases.values()])
    rows: Rows = []
    for name, found in zip(names, cases.values(), strict=True):
        shown = list(chosen(found).values())
        rows += [_field(name, summary, _base(shown, relative_to)) for summary in shown]
    against = "the best of each case" if relative_to is None else printable(relative_to)
    title = f"Time relative to {against}, by the backend's own choice of variant; what is not a right answer has no ratio"
    fastest = {column: sum(row["column"] == column and row["ratio"] == 1 for row in rows) for column in order}
    told = ", ".join(f"{column} in {count}" for column, count in fastest.items() if count)
    description = f"{title}. {len(cases)} cases by {len(order)} columns."
    description += f" The fastest: {told}." if relative_to is None and told else ""
    return Figure("heatmap", title, filled(_form(names, order, faster=relative_to is not None), {"fields": rows}), description)


def _form(names: Sequence[str], order: Sequence[str], *, faster: bool) -> dict[str, Any]:
    """``faster``: whether something may be faster than what it is held against."""
    angle = 0 if sum(map(len, order)) <= UPRIGHT else -35
    across = alt.Axis(orient="top", labelAngle=angle, labelLimit=130, ticks=False, domain=False)
    column = alt.X("column:N", title=None, sort=list(order), axis=across)
    case = two_lines(names)
    halves = [(-FULL, FAST), (0, MIDDLE), (FULL, SLOW)] if faster else [(0, MIDDLE), (FULL, SLOW)]
    shades = alt.Scale(domain=[end for end, _ in halves], range=[shade for _, shade in halves], clamp=True, interpolate="lab")
    marks = [value for value in (-FULL, -1, 0, 1, FULL) if value >= halves[0][0]]
    legend = alt.Legend(title=None, values=marks, labelExpr="pow(2, datum.value) + '×'", labelOverlap=False, gradientLength=200)
    told = [alt.Tooltip(f"{field}:N") for field in ("case", "column", "variant", "time", "shown", "status")]
    fields = alt.Chart(alt.NamedData("fields")).encode(x=column, y=case, tooltip=told)
    return form(
        fields.transform_filter("isValid(datum.ratio)")
        .mark_rect(stroke="white", strokeWidth=2, opacity=1)
        .encode(color=alt.Color("shade:Q", scale=shades, legend=legend)),
        fields.transform_filter("isValid(datum.ratio)").mark_text(color="#1b1f23").encode(text="shown:N"),
        fields.transform_filter("!isValid(datum.ratio)").mark_text(opacity=0.8).encode(text="shown:N"),
        height=STEP * max(1, len(names)),
    )


def _field(name: str, summary: Summary, base: Summary | None) -> dict[str, Any]:
    """``shade``: how many doublings of the base's time."""
    ratio = summary.median / base.median if summary.ranked and summary.median and base and base.median else None
    timed = summary.status in TIMED and summary.time is not None
    return {
        "name": name,
        "case": name.replace("\n", " "),
        "column": printable(summary.column),
        "variant": printable(summary.cell.variant),
        "time": str(Quantity(tuple(summary.time) if timed and summary.time else None, "estimate")),
        "ratio": ratio,
        "shade": round(math.log2(ratio), 3) if ratio else None,
        "shown": str(Quantity(ratio, "ratio")) if ratio else summary.status,
        "status": summary.status,
    }


def _base(shown: Sequence[Summary], relative_to: str | None) -> Summary | None:
    ranked = [summary for summary in shown if summary.ranked]
    if relative_to is None:
        return min(ranked, key=lambda summary: summary.median or 0.0, default=None)
    return next((summary for summary in ranked if relative_to in {summary.column, summary.cell.backend}), None)


def _name(summary: Summary, naming: Naming) -> str:
    return f"{printable(summary.cell.workload)}\n{printable(naming(summary.cell))}"
