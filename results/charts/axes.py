"""Numbers on axes: units, digits, and logarithmic scales, whose marks are chosen here since no more than a few have room."""

from __future__ import annotations

import math
from collections.abc import Iterable

import altair as alt

UNITS = {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1.0}
#: An expression of Vega's for the label of a time in ns on an axis that goes from one unit to the next.
TIMES = (
    "datum.value < 1e3 ? format(datum.value, '~g') + ' ns' : datum.value < 1e6 ? format(datum.value / 1e3, '~g') + ' µs' : "
    "datum.value < 1e9 ? format(datum.value / 1e6, '~g') + ' ms' : format(datum.value / 1e9, '~g') + ' s'"
)
MARKS = 9  #: of an axis at most
STEPS = ((1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))  #: what may be marked between two powers of ten
MARGIN = 1.15  #: as a factor, beyond the first and the last value


def unit_of(ns: float) -> str:
    """The unit in which ``ns`` has one to three digits before the point."""
    return next((name for name, size in UNITS.items() if ns >= 0.9995 * size), "ns")


def brief(value: float) -> float:
    """Five digits, which no screen shows the rest of: a page holds thousands of them."""
    return float(f"{value:.5g}")


def logarithmic(values: Iterable[float]) -> tuple[alt.Scale, list[float]]:
    """The scale that holds the positive ``values``, and the marks of its axis: powers of ten, and others between them if they fit."""
    found = list(values)
    low, high = min(found) / MARGIN, max(found) * MARGIN
    return alt.Scale(type="log", domain=[brief(low), brief(high)], nice=False), _marks(low, high)


def _marks(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.floor(math.log10(high))
    found: list[float] = []
    for steps in STEPS:
        marks = (step * 10.0**power for power in range(first, last + 1) for step in steps)
        found = [mark for mark in marks if low <= mark <= high]
        if len(found) <= MARKS:
            break
    return found[:: max(1, -(-len(found) // MARKS))]
