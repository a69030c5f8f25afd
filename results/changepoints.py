"""Where a series of times changes its level, robust to outliers and heavy tails. Pure.

The series is taken in logarithms and centred on its median, and what lies beyond a few robust standard deviations is drawn in to there
(Huber's score: a spike weighs no more than that, and a heavy tail becomes a light one). Two scans look for a change in the mean of the
scores: for one *step*, over every place at which the series can be cut in two, and for a *pulse*, a stretch that differs from what lies
on both sides of it (circular binary segmentation: Olshen et al., Biostatistics 5, 2004). What is found cuts the series, and the pieces
are searched in turn.

Evidence counts when it exceeds what noise reaches (``scans``). At last every change has to be at least ``smallest``, and to explain more
of its surroundings than a straight line does: or it is a drift.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from metalbench.results.scans import LEAST, PULSE, QUARTILES, STEP, Array, bound, pulse_scan, pulse_sums, step_scan, step_sums, weights
from metalbench.results.statistics import SMALLEST_DIFFERENCE

PAIR = 3.5  #: robust standard deviations beyond which two runs in succession are a new level, and one is a suspect
FEW = 1 / 20  #: of a level's points may lie as far out as one that is outside of it


class ChangePoint(NamedTuple):
    """``start`` is the index of the new level's first point; ``ratio`` is the new level over the old (medians), with its 95 % interval.

    ``strength``: the evidence over what noise reaches, at least 1; it says how sure the change is, not how large.
    """

    start: int
    ratio: float
    low: float
    high: float
    strength: float


def change_points(values: Sequence[float], smallest: float = SMALLEST_DIFFERENCE) -> list[ChangePoint]:
    """The changes of level in positive ``values``, oldest first; ``smallest`` is the relative change below which none matters.

    The same values give the same answer. A level is found from three points on, at the end from two that are far outside of the last one.
    """
    if any(not 0 < value < math.inf for value in values):
        raise ValueError("A series of times is made of positive numbers.")
    logs = np.log(np.asarray(values, float))
    floor = math.log1p(smallest)
    cuts = _settled(logs, _search(logs, floor), floor)
    if _ends_in_pair(values, earlier := [cut for cut in cuts if cut < len(values) - LEAST], smallest):
        cuts = [*earlier, len(values) - 2]
    edges = [0, *cuts, len(logs)]
    return [_described(logs[a:c], b - a, a, floor) for a, b, c in zip(edges, edges[1:], edges[2:], strict=False)]


def _ends_in_pair(values: Sequence[float], cuts: list[int], smallest: float) -> bool:
    """Whether the newest two, and not the one before them, lie outside of the level that began with the last of ``cuts``, on one side."""
    level = values[cuts[-1] if cuts else 0 : -2]
    if len(level) < 2 * LEAST or outside(level[:-1], level[-1], smallest):
        return False
    if not all(outside(level, value, smallest) for value in values[-2:]):
        return False
    centre = statistics.median(level)
    return (values[-2] > centre) == (values[-1] > centre)


def outside(level: Sequence[float], value: float, smallest: float = SMALLEST_DIFFERENCE) -> bool:
    """Whether ``value`` lies clearly outside of a level's points: by size, by the level's own scatter, and by rank.

    A level of fewer than 6 points is too little known to say so.
    """
    if len(level) < 2 * LEAST:
        return False
    logs = np.log(np.asarray(level, float))
    centre = float(np.median(logs))
    away = abs(math.log(value) - centre)
    reach = PAIR * _spread(logs, centre) * (1 + (2 * LEAST / len(logs)) ** 2)  # the fewer the points, the less the spread is known
    as_far = int(np.count_nonzero(np.abs(logs - centre) >= away))
    return away >= math.log1p(smallest) and away > reach and as_far <= max(1, FEW * len(logs))


def _search(logs: Array, floor: float) -> list[int]:
    """Where to cut, by recursion: at a step if there is one, else around a pulse."""
    n = len(logs)
    if n < 2 * LEAST:
        return []
    cuts: list[int] = []
    place, evidence = step_scan(step_sums(logs, floor))
    if evidence > bound(STEP, n):
        cuts = [int(place)]
    else:
        first, last, evidence = pulse_scan(pulse_sums(logs, floor))
        if evidence > bound(PULSE, n):
            cuts = [int(first), int(last)]
    if not cuts:
        return []
    inner = [a + cut for a, b in pairwise([0, *cuts, n]) for cut in _search(logs[a:b], floor)]
    return sorted([*cuts, *inner])


def _settled(logs: Array, cuts: list[int], floor: float) -> list[int]:
    """Each cut where its own surroundings, up to its neighbours, put it; without those that do not hold there, the weakest first."""

    @cache
    def judged(start: int, stop: int) -> tuple[int, float, bool]:
        near = logs[start:stop]
        sums = step_sums(near, floor)
        place, evidence = step_scan(sums)
        cut, strength = int(place), float(evidence) / bound(STEP, len(near))
        size = abs(float(np.median(near[cut:]) - np.median(near[:cut])))
        return start + cut, strength, strength > 1 and size >= floor and not _is_drift(sums, cut)

    cuts = list(cuts)
    while True:
        weak = {}
        for i in range(len(cuts)):
            cuts[i], strength, holds = judged(cuts[i - 1] if i else 0, cuts[i + 1] if i + 1 < len(cuts) else len(logs))
            if not holds:
                weak[i] = strength
        if not weak:
            return cuts
        del cuts[min(weak, key=lambda i: weak[i])]


def _is_drift(sums: Array, cut: int) -> bool:
    """Whether a straight line describes the scores as well as the step at ``cut``, which has its place to choose beside its size.

    By Akaike's criterion for least squares, n log(sum of squares) + 2 a parameter; the squares of the scores sum to n.
    """
    n = len(sums) - 1
    ramp = np.arange(n) - (n - 1) / 2
    line = float(np.diff(sums) @ ramp) ** 2 / float(ramp @ ramp)
    step = float(sums[cut]) ** 2 * n / (cut * (n - cut))
    return n - line <= (n - step) * math.exp(2 / n)


def _described(near: Array, cut: int, start: int, floor: float) -> ChangePoint:
    """The change at ``cut`` of its surroundings; the interval is that of two medians of normal points with a common spread."""
    n = len(near)
    before, after = float(np.median(near[:cut])), float(np.median(near[cut:]))
    spread = _spread(np.concatenate([near[:cut] - before, near[cut:] - after]), 0.0) * math.sqrt(n / (n - 2))
    reach = 1.96 * math.sqrt(math.pi / 2 * (1 / cut + 1 / (n - cut))) * spread
    size = after - before
    evidence = abs(float(step_sums(near, floor)[cut])) / float(weights(n)[cut])
    strength = max(1.0, evidence / bound(STEP, n))  # a pair at the end is not the scan's to judge
    return ChangePoint(start + cut, math.exp(size), math.exp(size - reach), math.exp(size + reach), strength)


def _spread(logs: Array, centre: float) -> float:
    """The standard deviation of normal points, from their median distance to the centre."""
    return 2 / QUARTILES * float(np.median(np.abs(logs - centre)))
