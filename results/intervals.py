"""The intervals of a comparison as a small SVG: one line a cell on a logarithmic axis of ratios, the worst first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from metalbench.results.comparison import Comparison
from metalbench.results.layout import Naming, full_name
from metalbench.results.verdicts import Judgement

LINES = 40  #: cells at most; a picture of more says nothing
LONGEST = 74  #: characters of a cell's name
ROW, LABEL, PLOT, MARGIN = 20, 470, 320, 10  #: pixels
TICKS = (0.01, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 2.0, 5.0, 10.0, 100.0)
APART = 38  #: pixels between two ticks, so that their names don't touch


class Line(NamedTuple):
    """One cell: y of its middle, x of the interval's ends and of the estimate."""

    y: int
    label: str
    verdict: str
    low: float
    high: float
    point: float


def svg(comparison: Comparison, naming: Naming) -> str:
    """A picture for a page or a README: it suits a light and a dark background and needs nothing from elsewhere."""
    import jinja2  # noqa: PLC0415 - only where a picture is asked for

    judged = [(full_name(change.candidate.cell, naming), change.time) for change in comparison.changes if change.time is not None]
    x = _axis([time for _, time in judged[:LINES]], comparison.threshold)
    lines = []
    for number, (label, time) in enumerate(judged[:LINES]):
        short = label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
        lines.append(Line(MARGIN + ROW * number + ROW // 2, short, time.verdict, x(time.low), x(time.high), x(time.ratio)))
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("metalbench.results", "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("intervals.svg").render(
        lines=lines,
        ticks=_ticks(x),
        band=(x(1 / (1 + comparison.threshold)), x(1 + comparison.threshold)),
        top=MARGIN,
        bottom=MARGIN + ROW * len(lines),
        width=LABEL + PLOT + MARGIN,
        label=LABEL - MARGIN,
        left_out=len(judged) - len(lines),
    )


def _axis(shown: Sequence[Judgement], threshold: float) -> Callable[[float], float]:
    """Ratio → x. The axis holds every estimate and thrice the threshold; what lies beyond it is drawn at its end."""
    reach = 1.25 * max([3 * math.log1p(max(threshold, 0.001)), *(abs(math.log(time.ratio)) for time in shown)])

    def x(ratio: float) -> float:
        place = math.log(ratio) / reach if ratio > 0 else -1.0
        return round(LABEL + PLOT * (1 + max(-1.0, min(1.0, place))) / 2, 1)

    return x


def _ticks(x: Callable[[float], float]) -> list[tuple[float, str]]:
    """Those that the axis has room for, from 1 outwards."""
    chosen: list[float] = []
    for tick in sorted(TICKS, key=lambda tick: abs(math.log(tick))):
        inside = LABEL < x(tick) < LABEL + PLOT
        if inside and all(abs(x(tick) - x(other)) >= APART for other in chosen):
            chosen.append(tick)
    return [(x(tick), f"{tick:g}×") for tick in sorted(chosen)]
