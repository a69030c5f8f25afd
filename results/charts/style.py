"""What charts have in common: colours, names, and how a specification is put together.

A specification is made with Altair, which checks it in tens of milliseconds; a site has hundreds of charts. So those of which every cell
has one make their form once and put data into copies of it (``filled``). Neither colours of the page nor fonts are in it: whoever draws
it adds ``LIGHT`` or ``DARK`` as its ``config``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from metalbench.results.quantities import printable
from metalbench.results.summary import Summary

Rows = list[dict[str, Any]]

#: Okabe and Ito's colours (Color Universal Design, 2008), which the colour-blind can tell apart, without yellow, which white paper
#: swallows; the ink's own comes last. Shapes tell columns apart where colours aren't seen: six of them, so that 42 columns differ.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])
SLOWER, FASTER, NEUTRAL = "#c2540a", "#1a73c7", "#7a828c"  #: seen on light and dark pages alike
VERDICTS = {  #: verdict → colour and shape: they point to the side of 1 where they stand
    "slower": (SLOWER, "triangle-right"),
    "faster": (FASTER, "triangle-left"),
    "same": (NEUTRAL, "circle"),
    "unsure": (NEUTRAL, "cross"),
}
LONGEST = 245  #: pixels of a name beside an axis, where the page has them
#: An expression of Vega's for the pixels that a chart has in its page, beside its axis too; a file, which has no page, is 680 wide.
ROOM = "(containerSize()[0] > 0 ? containerSize()[0] : 680)"


def _config(ink: str, faint: str, accent: str) -> dict[str, Any]:
    words = {
        "labelColor": ink,
        "labelFontSize": 11,
        "labelLimit": LONGEST,
        "titleColor": ink,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
    }
    lines = {"domainColor": faint, "tickColor": faint, "gridColor": faint, "gridOpacity": 0.35}
    # Vega's own layout of legends, of which the rules of Vega-Lite know no more than that it is there.
    stacked = {"bottom": {"direction": "vertical", "anchor": "start", "margin": 6}}
    return {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": words | lines | {"labelPadding": 4, "titlePadding": 8, "tickSize": 4},
        "legend": words | {"orient": "bottom", "direction": "horizontal", "symbolOpacity": 1, "layout": stacked},
        "title": {"color": ink, "fontSize": 13, "fontWeight": "bold", "anchor": "start", "frame": "bounds", "offset": 12},
        "range": {"category": [*PALETTE, ink]},
        "point": {"color": accent},
        "tick": {"color": accent},
        "line": {"color": accent},
        "rect": {"color": accent},
        "rule": {"color": ink},
        "text": {"color": ink, "fontSize": 11},
    }


LIGHT = _config(ink="#24292f", faint="#b6bcc4", accent=PALETTE[0])
DARK = _config(ink="#e6edf3", faint="#545c66", accent=PALETTE[4])


def form(*layers: alt.Chart | alt.LayerChart, height: int) -> dict[str, Any]:
    """The specification of a chart as wide as its place on the page. Altair's own look is left out of it."""
    spec: dict[str, Any] = alt.layer(*layers).properties(width="container", height=height).to_dict()
    del spec["config"]
    return spec


def filled(made: Mapping[str, Any], data: Mapping[str, Rows], variables: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A copy of a specification with its named data, its ``variables``, and other outermost fields. The form itself stays as it was."""
    params = [*made.get("params", []), *({"name": name, "value": value} for name, value in (variables or {}).items())]
    return {**made, **changes, **({"params": params} if params else {}), "datasets": dict(data)}


def columns(summaries: Iterable[Summary]) -> list[str]:
    """The columns in the order of the run, by which they have their colours."""
    return list(dict.fromkeys(printable(summary.column) for summary in summaries))


def by_column(order: Sequence[str], present: Iterable[str]) -> tuple[alt.Color, alt.Shape]:
    """Colour and shape of the field ``column``: the same for a column wherever it is ``present`` on a page."""
    named = set(present)
    own = legend([column for column in order if column in named])
    marks = [SHAPES[number % len(SHAPES)] for number in range(len(order))]
    colour = alt.Color("column:N", scale=alt.Scale(domain=list(order)), legend=own)
    return colour, alt.Shape("column:N", scale=alt.Scale(domain=list(order), range=marks), legend=own)


def dashed(field: str, names: Sequence[str]) -> alt.StrokeDash:
    """A dash for each of the ``names`` that a field has; a single one needs none, and no legend."""
    dashes = [DASHES[number % len(DASHES)] for number in range(len(names))]
    own = legend(names if len(names) > 1 else [], symbolType="stroke", symbolSize=400, symbolStrokeWidth=1.5)
    return alt.StrokeDash(f"{field}:N", scale=alt.Scale(domain=list(names), range=dashes), legend=own)


def two_lines(names: Sequence[str]) -> alt.Y:
    """The field ``name`` as lines of the chart, in the order of ``names``, each of which has a line break in it."""
    words, room = "split(datum.label, '\\n')", alt.ExprRef(f"min({LONGEST}, 0.4 * {ROOM})")
    axis = alt.Axis(labelExpr=words, labelLimit=room, labelLineHeight=13, labelOffset=-6, ticks=False, domain=False, grid=False)
    return alt.Y("name:N", title=None, sort=list(names), axis=axis)


def legend(names: Sequence[str], **looks: Any) -> alt.Legend | None:
    """In as many columns as there is room for; none where there is nothing to tell."""
    if not names:
        return None
    room = min(LONGEST, 7 * max(map(len, names))) + 30
    return alt.Legend(title=None, values=list(names), columns=alt.ExprRef(f"max(1, floor(0.6 * {ROOM} / {room}))"), **looks)


def chart_name(*words: str) -> str:
    """For links and names of files, of anybody's words: ``scaling-attention-float16``."""
    return "-".join(filter(None, (re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") for word in words)))


def distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number to those that were there before: each is to have a line of its own."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told
