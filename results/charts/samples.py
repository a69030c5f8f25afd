"""The samples of a cell as its two charts draw them: in one unit, on one axis, and no more of them than can be seen."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from metalbench.results.charts.axes import UNITS, brief, unit_of
from metalbench.results.quantities import Quantity, format_duration
from metalbench.results.summary import Summary

DRAWN = 200  #: samples of a launch at most
FAR = 6.0  #: interquartile ranges above the third quartile, beyond which a sample would press all others together


class Samples(NamedTuple):
    """``launches``: number → time a call, in the order they were taken; all times in ``unit``, from ``low`` to ``high`` on the axis."""

    unit: str
    launches: dict[int, list[float]]
    medians: dict[int, float]
    low: float
    high: float
    overall: tuple[float, float | None, float | None]  #: the median over launches and its 95 % interval

    def beyond(self, launch: int) -> list[float]:
        """What is off the axis, where a few samples took many times as long."""
        return [value for value in self.launches[launch] if value > self.high]

    @property
    def remarks(self) -> list[str]:
        """What the picture leaves out, each in a few words."""
        thinned = max(map(len, self.launches.values())) > DRAWN
        beyond = [value for launch in self.launches for value in self.beyond(launch)]
        worst = f"{len(beyond)} beyond the edge, up to {format_duration(max(beyond) * UNITS[self.unit])}" if beyond else ""
        return [words for words in (f"at most {DRAWN} drawn of each launch" if thinned else "", worst) if words]


def samples(summary: Summary) -> Samples:
    """Of a cell with at least one launch that was timed."""
    assert summary.time is not None
    unit = unit_of(summary.time.median)
    size = UNITS[unit]
    measured = {record.launch: record.measurement.samples_ns() for record in summary.records if record.launch in summary.by_launch}
    launches = {launch: [value / size for value in found] for launch, found in measured.items()}
    medians = {launch: brief(median / size) for launch, median in summary.by_launch.items()}
    point, *ends = (None if value is None else brief(value / size) for value in summary.time)
    assert point is not None
    low, high = _ends([value for found in launches.values() for value in found], list(medians.values()))
    return Samples(unit, launches, medians, low, high, (point, ends[0], ends[1]))


def described(summary: Summary, found: Samples) -> str:
    """The figures in words."""
    assert summary.time is not None
    count = sum(map(len, found.launches.values()))
    medians = summary.medians
    spread = f", from {format_duration(min(medians))} to {format_duration(max(medians))}" if len(medians) > 1 else ""
    estimate = Quantity(tuple(summary.time), "estimate")
    interval = " with its 95 % interval" if summary.time.low is not None else ""
    told = f"{_counted(count, 'sample')} of {_counted(len(medians), 'launch', 'es')}{spread}; median time of a call{interval}: {estimate}."
    return " ".join([told, *(f"{remark[0].upper()}{remark[1:]}." for remark in found.remarks)])


def _counted(count: int, thing: str, plural: str = "s") -> str:
    return f"{count} {thing}{plural if count != 1 else ''}"


def _ends(values: Sequence[float], medians: Sequence[float]) -> tuple[float, float]:
    """Of an axis that holds all medians, and all samples but for those that are far out (Tukey, Exploratory Data Analysis, 1977)."""
    low, high = min(values), max(values)
    if len(values) > 1:
        first, middle, third = statistics.quantiles(values, n=4, method="inclusive")
        fence = max(third + FAR * max(third - first, 0.01 * middle), *medians)
        high = high if high <= fence else max(*medians, *(value for value in values if value <= fence))
    margin = max(0.03 * (high - low), 0.001 * high)
    return brief(low - margin), brief(high + margin)
