"""How the samples of a cell lie: a line of ticks a launch, since launches are what differs most, and what they say together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import altair as alt

from metalbench.results.charts.axes import UNITS, brief
from metalbench.results.charts.figure import Figure
from metalbench.results.charts.samples import DRAWN, described, samples
from metalbench.results.charts.style import Rows, filled, form
from metalbench.results.quantities import format_duration
from metalbench.results.summary import Summary

STEP, HEIGHT = 26, 320  #: pixels of a launch, and of all of them where they are many


def figure(summary: Summary) -> Figure:
    """Of a cell with at least one launch that was timed."""
    found = samples(summary)
    data: dict[str, Rows] = {
        "launches": [
            {"launch": launch, "t": _drawn(values, found.high), "median": found.medians[launch]}
            for launch, values in found.launches.items()
        ],
        "beyond": [
            {"launch": launch, "t": found.high, "what": f"{len(far)} beyond, up to {format_duration(max(far) * UNITS[found.unit])}"}
            for launch in found.launches
            if (far := found.beyond(launch))
        ],
        "overall": [{"t": found.overall[0], "low": found.overall[1], "high": found.overall[2]}],
    }
    step = max(8, min(STEP, HEIGHT // len(found.launches)))
    title = "; ".join(
        ["Samples by launch, the median of each (diamond), and the median over launches with its 95 % interval", *found.remarks]
    )
    spec = filled(_form(found.unit), data, {"ends": [found.low, found.high]}, height=step * len(found.launches))
    return Figure("distribution", title, spec, described(summary, found))


@cache
def _form(unit: str) -> dict[str, Any]:
    title, scale = f"time of a call, {unit}", alt.Scale(domain=alt.ExprRef("ends"), zero=False, nice=False)
    time = alt.X("t:Q", title=title, scale=scale, axis=alt.Axis(tickCount=7))
    launch = alt.Y("launch:O", title="launch", axis=alt.Axis(grid=False, domain=False, ticks=False))
    told = [alt.Tooltip("launch:O"), alt.Tooltip("t:Q", title=f"time, {unit}")]
    every = alt.Chart(alt.NamedData("launches"))
    overall = alt.Chart(alt.NamedData("overall"))
    return form(
        overall.mark_rect(opacity=0.15, clip=True).encode(x=alt.X("low:Q", title=title), x2="high:Q"),
        overall.mark_rule(clip=True).encode(x=time),
        every.transform_flatten(["t"])
        .mark_tick(opacity=0.35, thickness=1.2, bandSize=14, clip=True)
        .encode(x=time, y=launch, tooltip=told),
        every.mark_point(shape="diamond", filled=True, size=90, opacity=1, stroke="white", strokeWidth=1).encode(
            x=alt.X("median:Q", title=title), y=launch, tooltip=[alt.Tooltip("launch:O"), alt.Tooltip("median:Q", title=f"median, {unit}")]
        ),
        alt.Chart(alt.NamedData("beyond"))
        .mark_point(shape="triangle-right", filled=True, size=60, opacity=1)
        .encode(x=time, y=launch, tooltip=[alt.Tooltip("launch:O"), alt.Tooltip("what:N", title="samples")]),
        height=HEIGHT,
    )


def _drawn(values: Sequence[float], high: float) -> list[float]:
    """Of many, as many at even steps of their order, the least and the greatest among them."""
    ordered = sorted(values)
    steps = range(min(len(ordered), DRAWN))
    kept = [ordered[round(place * (len(ordered) - 1) / max(1, len(steps) - 1))] for place in steps]
    return [brief(value) for value in kept if value <= high]
