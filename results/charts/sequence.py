"""The samples of a cell as they came, launch after launch: whether it warmed up, drifted, or was disturbed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import altair as alt

from metalbench.results.charts.axes import brief
from metalbench.results.charts.figure import Figure
from metalbench.results.charts.samples import DRAWN, Samples, described, samples
from metalbench.results.charts.style import Rows, filled, form
from metalbench.results.summary import Summary

NAMES = 20  #: launches at most that are named above their samples


def figure(summary: Summary) -> Figure:
    """Of a cell with at least one launch that was timed. A launch has the same room however many samples it has."""
    found = samples(summary)
    every = max(1, -(-len(found.launches) // NAMES))
    data: dict[str, Rows] = {
        "launches": [
            {"launch": launch, "median": found.medians[launch], "left": place, "right": place + 1, "name": "" if place % every else launch}
            for place, launch in enumerate(found.launches)
        ],
        "samples": [
            {"launch": launch, "left": place, "count": len(values), **_drawn(values, found.high)}
            for place, (launch, values) in enumerate(found.launches.items())
        ],
        "beyond": list(_beyond(found)),
    }
    title = "; ".join(["Samples in their order, launch after launch, with the median of each", *found.remarks])
    reach = {"ends": [found.low, found.high], "count": len(found.launches)}
    return Figure("sequence", title, filled(_form(found.unit), data, reach), described(summary, found))


@cache
def _form(unit: str) -> dict[str, Any]:
    across = "launch, and its samples in order"
    scale = alt.Scale(domain=[0, alt.ExprRef("count")], nice=False)
    place = alt.X("x:Q", title=across, scale=scale, axis=alt.Axis(labels=False, ticks=False, grid=False))
    title, ends = f"time of a call, {unit}", alt.Scale(domain=alt.ExprRef("ends"), zero=False, nice=False)
    time = alt.Y("t:Q", title=title, scale=ends, axis=alt.Axis(tickCount=6))
    told = [alt.Tooltip("launch:O"), alt.Tooltip("n:Q", title="sample"), alt.Tooltip("t:Q", title=f"time, {unit}")]
    launches = alt.Chart(alt.NamedData("launches"))
    left = alt.X("left:Q", title=across)
    return form(
        launches.mark_rule(opacity=0.25).encode(x=left),
        alt.Chart(alt.NamedData("samples"))
        .transform_flatten(["n", "t"])
        .transform_calculate(x="datum.left + (datum.n - 0.5) / datum.count")
        .mark_point(filled=True, size=14, opacity=0.6, clip=True)
        .encode(x=place, y=time, tooltip=told),
        launches.mark_rule(strokeWidth=2).encode(
            x=left,
            x2="right:Q",
            y=alt.Y("median:Q", title=title),
            tooltip=[alt.Tooltip("launch:O"), alt.Tooltip("median:Q", title=f"median, {unit}")],
        ),
        alt.Chart(alt.NamedData("beyond"))
        .mark_point(shape="triangle-up", filled=True, size=45, opacity=1)
        .encode(x=place, y=alt.value(0), tooltip=told),
        launches.mark_text(align="left", baseline="bottom", dx=3, dy=-5).encode(x=left, y=alt.value(0), text="name:N"),
        height=220,
    )


def _drawn(values: Sequence[float], high: float) -> dict[str, list[float]]:
    """Of many, one of each so many in succession; what is off the axis has its own marks."""
    shown = [number for number in range(0, len(values), -(-len(values) // DRAWN)) if values[number] <= high]
    return {"n": [number + 1 for number in shown], "t": [brief(values[number]) for number in shown]}


def _beyond(found: Samples) -> Iterator[dict[str, float]]:
    """Samples that are off the axis, which stand at its end."""
    for place, (launch, values) in enumerate(found.launches.items()):
        for number, value in enumerate(values):
            if value > found.high:
                yield {"launch": launch, "x": brief(place + (number + 0.5) / len(values)), "n": number + 1, "t": brief(value)}
