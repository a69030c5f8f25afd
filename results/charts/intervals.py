"""The verdicts of a comparison: the ratio of each cell with its interval, the worst first, on a logarithmic axis around 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from metalbench.results.charts.axes import brief
from metalbench.results.charts.figure import Figure
from metalbench.results.charts.style import VERDICTS, Rows, distinct, filled, form, legend, two_lines
from metalbench.results.comparison import Change, Comparison
from metalbench.results.layout import Naming
from metalbench.results.quantities import printable
from metalbench.results.verdicts import Judgement

LINES = 40  #: cells at most; a picture of more says nothing
STEP = 32  #: pixels of a cell, whose name has two lines
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
APART = 0.12  #: of the axis between two marks, so that their labels don't touch


def figure(comparison: Comparison, naming: Naming) -> Figure:
    """One line a cell that was timed on both sides; how many have no room is said."""
    judged = [(change, change.time) for change in comparison.changes if change.time is not None]
    shown = judged[:LINES]
    low, high = _ends([time for _, time in shown], comparison.threshold)
    names = distinct([_name(change, naming) for change, _ in shown])
    rows = [_row(name, time, low, high) for name, (_, time) in zip(names, shown, strict=True)]
    threshold = comparison.threshold
    data = {"cells": rows, "band": [{"from": brief(1 / (1 + threshold)), "to": 1 + threshold}], "one": [{"ratio": 1}]}
    sides = f"{printable(comparison.candidate.id)} to that of run {printable(comparison.base.id)}"
    left_out = f"; {len(judged) - len(shown)} more cells are left out" if len(judged) > len(shown) else ""
    title = f"Time of run {sides}, the worst first, with the threshold of {100 * threshold:g} %{left_out}"
    counts = ", ".join(f"{sum(time.verdict == verdict for _, time in judged)} {verdict}" for verdict in VERDICTS)
    return Figure("intervals", title, filled(_form(names, low, high, rows), data), f"{title}. {len(judged)} cells: {counts}.")


def _form(names: Sequence[str], low: float, high: float, rows: Rows) -> dict[str, Any]:
    cell = two_lines(names)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(values=_marks(low, high), format="~g", labelExpr="datum.label + '×'")
    ratio = alt.X("ratio:Q", title="time, candidate to base", scale=scale, axis=axis)
    present = [verdict for verdict in VERDICTS if any(row["verdict"] == verdict for row in rows)]
    colour, shape = (
        kind(
            "verdict:N", scale=alt.Scale(domain=list(VERDICTS), range=[looks[place] for looks in VERDICTS.values()]), legend=legend(present)
        )
        for place, kind in enumerate((alt.Color, alt.Shape))
    )
    told = [alt.Tooltip("cell:N"), alt.Tooltip("verdict:N"), alt.Tooltip("told:N", title="ratio")]
    band, one, cells = (alt.Chart(alt.NamedData(name)) for name in ("band", "one", "cells"))
    return form(
        band.mark_rect(opacity=0.15, color="gray", clip=True).encode(x=alt.X("from:Q", title="time, candidate to base"), x2="to:Q"),
        one.mark_rule(opacity=0.6).encode(x=ratio),
        cells.mark_rule(strokeWidth=2, clip=True).encode(
            x=alt.X("low:Q", title="time, candidate to base"), x2="high:Q", y=cell, color=colour, tooltip=told
        ),
        cells.mark_point(filled=True, size=90, opacity=1).encode(x=ratio, y=cell, color=colour, shape=shape, tooltip=told),
        height=STEP * max(1, len(names)),
    )


def _row(name: str, time: Judgement, low: float, high: float) -> dict[str, Any]:
    """An interval is drawn to the ends of the axis at most: of a single launch it has none of its own."""
    interval = f" ({time.low:.3f} … {time.high:.3f})" if math.isfinite(time.high) and time.low > 0 else ""
    return {
        "name": name,
        "cell": name.replace("\n", " · "),
        "verdict": time.verdict,
        "ratio": brief(time.ratio),
        "low": brief(max(time.low, low)),
        "high": brief(min(time.high, high)),
        "told": f"{time.ratio:.3f}×{interval}",
    }


def _name(change: Change, naming: Naming) -> str:
    """In two lines what ``full_name`` says in one."""
    cell = change.candidate.cell
    return f"{printable(f'{cell.workload} {naming(cell)}')}\n{printable(f'{cell.column_name} · {cell.variant}')}"


def _ends(shown: Sequence[Judgement], threshold: float) -> tuple[float, float]:
    """Of an axis that holds every ratio and thrice the threshold, with 1 in its middle."""
    reach = 1.25 * max([3 * math.log1p(max(threshold, 0.001)), *(abs(math.log(time.ratio)) for time in shown)])
    return math.exp(-reach), math.exp(reach)


def _marks(low: float, high: float) -> list[float]:
    """Those that the axis has room for, from 1 outwards."""
    apart = APART * math.log(high / low)
    chosen: list[float] = []
    for tick in sorted(TICKS, key=lambda tick: abs(math.log(tick))):
        if low < tick < high and all(abs(math.log(tick / other)) >= apart for other in chosen):
            chosen.append(tick)
    return sorted(chosen)
