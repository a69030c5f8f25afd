"""The cells of a run under the roofs that were measured on their devices: how far each is from what the machine can do.

Work of so many FLOPs a byte can't be done faster than the bytes come nor than the device multiplies (Williams, Waterman and Patterson,
Communications of the ACM 52, 2009). A roof is a slope, the speed of a copy, up to a level, that of a product in the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from metalbench.results.charts.axes import brief, logarithmic
from metalbench.results.charts.figure import Figure
from metalbench.results.charts.style import Rows, by_column, columns, dashed, filled, form
from metalbench.results.layout import Naming
from metalbench.results.peaks import WORKLOAD, Peaks, fraction
from metalbench.results.quantities import Quantity, printable
from metalbench.results.summary import Summary

WIDTH, HEIGHT = 360, 400  #: pixels that labels are placed for; the page may be narrower or wider
LETTER, LINE = 6, 10  #: pixels of a label's text, which stands a line above what it names
POINT = 4  #: pixels from a point's middle to its edge
LONGEST = 40  #: letters of a label


def figure(summaries: Sequence[Summary], naming: Naming, peaks: Mapping[tuple[str, str], Peaks]) -> Figure:
    """Of those cells that have FLOPs, bytes and a time. Without ``peaks`` there are points and no roofs."""
    others = [summary for summary in summaries if summary.cell.workload != WORKLOAD]
    drawn = [summary for summary in others if summary.flops and summary.bytes and summary.medians]
    points = [_point(summary, naming, peaks.get(summary.cell.column)) for summary in drawn]
    names = {summary.cell.column: printable(summary.column) for summary in summaries}
    intensities = [point["intensity"] for point in points]
    roofs = list(_roofs(names, peaks, intensities))
    data = {
        "right": [point for point in points if point["status"] == "ok"],
        "doubtful": [point for point in points if point["status"] != "ok"],
        "roofs": roofs,
        "labels": _labels(points, roofs),
    }
    title = "Arithmetic speed against arithmetic intensity" + (", under the roofs that `roofline` measured" if roofs else "")
    title += "; hollow: wrong answers and fallbacks" if data["doubtful"] else ""
    return Figure("roofline", title, _spec(data, columns(summaries)), _described(title, roofs, len(drawn), len(others)))


def _point(summary: Summary, naming: Naming, own: Peaks | None) -> dict[str, Any]:
    assert summary.flops is not None
    assert summary.bytes is not None
    assert summary.median is not None
    speed = summary.flops / (summary.median / 1e9)
    share = fraction(summary, own) if own is not None else None
    return {
        "intensity": brief(summary.flops / summary.bytes),
        "speed": brief(speed),
        "column": printable(summary.column),
        "case": printable(f"{summary.cell.workload} {naming(summary.cell)}"),
        "variant": printable(summary.cell.variant),
        "reached": str(Quantity(speed, "flops")),
        "share": f"{share:.0%}" if share is not None else "–",
        "status": summary.status,
    }


def _roofs(
    names: Mapping[tuple[str, str], str], peaks: Mapping[tuple[str, str], Peaks], intensities: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """The corners of each roof, from left to right, over all intensities and its own ridge."""
    bounds = {column: peaks[column] for column in names if column in peaks}
    ridges = [flops / own.bandwidth for own in bounds.values() if own.bandwidth for flops in own.flops.values()]
    reach = [*intensities, *ridges]
    if not reach:
        return
    left, right = min(reach) / 2, max(reach) * 2
    for column, own in bounds.items():
        for dtype, flops in own.flops.items():
            ridge = [flops / own.bandwidth] if own.bandwidth else []
            slope = f", {Quantity(own.bandwidth, 'bandwidth')}" if own.bandwidth else ""
            roof = {"column": names[column], "dtype": printable(dtype), "roof": f"{Quantity(flops, 'flops')}{slope}"}
            for end, intensity in (("left", left), *(("ridge", corner) for corner in ridge), ("right", right)):
                speed = min(flops, own.bandwidth * intensity) if own.bandwidth else flops
                yield {"intensity": brief(intensity), "speed": brief(speed), "end": end, **roof}


def _labels(points: Rows, roofs: Rows) -> Rows:
    """What each roof stands for, then the highest point of each case from the highest down, where a label covers no other and no point."""
    across, up = (_placing([row[axis] for row in points + roofs], size) for axis, size in (("intensity", WIDTH), ("speed", HEIGHT)))
    taken: list[tuple[float, float, float]] = []
    labels: Rows = []

    def place(row: Mapping[str, Any], words: str, align: str) -> None:
        label = words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
        x, y, width = across(row["intensity"]), up(row["speed"]) + LINE, LETTER * len(label)
        start = x if align == "left" else x - width
        if all(abs(y - other) >= LINE or start + width <= left or right <= start for left, right, other in taken):
            taken.append((start, start + width, y))
            labels.append({"intensity": row["intensity"], "speed": row["speed"], "label": label, "align": align})

    for roof in roofs:
        if roof["end"] == "right":
            place(roof, roof["roof"], "right")
    taken += [(across(point["intensity"]) - POINT, across(point["intensity"]) + POINT, up(point["speed"])) for point in points]
    highest: dict[str, dict[str, Any]] = {}
    for point in sorted(points, key=lambda point: -point["speed"]):
        highest.setdefault(point["case"], point)
    for case, point in highest.items():
        place(point, case, "left" if across(point["intensity"]) < WIDTH / 2 else "right")
    return labels


def _placing(values: Sequence[float], pixels: int) -> Callable[[float], float]:
    """Value → its place on a logarithmic axis of so many pixels that holds all ``values``."""
    low, high = (math.log(end(values, default=1.0)) for end in (min, max))
    return lambda value: pixels * (math.log(value) - low) / ((high - low) or 1.0)


def _spec(data: dict[str, Rows], order: Sequence[str]) -> dict[str, Any]:
    points = data["right"] + data["doubtful"]
    everything = points + data["roofs"]
    across, marks = logarithmic([row["intensity"] for row in everything] or [1.0])
    intensity = alt.X("intensity:Q", title="FLOPs a byte", scale=across, axis=alt.Axis(values=marks, format="~g"))
    up, marks = logarithmic([row["speed"] for row in everything] or [1e9])
    speed = alt.Y("speed:Q", title="FLOP/s", scale=up, axis=alt.Axis(values=marks, format="~s"))
    colour, shape = by_column(order, (row["column"] for row in everything))
    dash = dashed("dtype", list(dict.fromkeys(row["dtype"] for row in data["roofs"])))
    roof = [alt.Tooltip(f"{field}:N") for field in ("column", "dtype", "roof")]
    told = [alt.Tooltip(f"{field}:N") for field in ("case", "column", "variant", "reached")]
    told += [alt.Tooltip("share:N", title="of the roof"), alt.Tooltip("status:N")]
    right, doubtful, labels = (alt.Chart(alt.NamedData(name)) for name in ("right", "doubtful", "labels"))
    place = {"x": intensity, "y": speed}
    texts = [
        labels.transform_filter(f"datum.align == '{align}'").mark_text(align=align, dy=-LINE, fontSize=10).encode(**place, text="label:N")
        for align in ("left", "right")
    ]
    spec = form(
        alt.Chart(alt.NamedData("roofs")).mark_line(strokeWidth=1.8).encode(**place, color=colour, strokeDash=dash, tooltip=roof),
        right.mark_point(filled=True, size=55, opacity=1).encode(**place, color=colour, shape=shape, tooltip=told),
        doubtful.mark_point(filled=False, size=55).encode(**place, color=colour, shape=shape, tooltip=told),
        *texts,
        height=HEIGHT,
    )
    return filled(spec, data)


def _described(title: str, roofs: Rows, drawn: int, count: int) -> str:
    told = dict.fromkeys(f"{roof['column']} {roof['dtype']}: {roof['roof']}" for roof in roofs)
    left_out = f"; {count - drawn} without FLOPs, bytes or a time are left out" if drawn < count else ""
    return f"{title}. {drawn} cells{left_out}. Roofs: {'; '.join(told) or 'none was measured'}."
