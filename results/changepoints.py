"""Where a series of times changes its level, robust to outliers and heavy tails. Pure.

The series is taken in logarithms and centred on its median, and what lies beyond a few robust standard deviations is drawn in to there
(Huber's score: a spike weighs no more than that, and a heavy tail becomes a light one). Two scans look for a change in the mean of the
scores: for one *step*, over every place at which the series can be cut in two, and for a *pulse*, a stretch that differs from what lies
on both sides of it (circular binary segmentation: Olshen et al., Biostatistics 5, 2004). What is found cuts the series, and the pieces
are searched in turn. The cumulative sums are divided by a little more than their standard deviation: a long level can afford stricter
evidence, and what that saves is spent on levels of a few points, foremost on those at the end, where somebody waits for an answer.

Evidence counts when it exceeds what noise reaches: see ``STEP``. At last every change has to be at least ``smallest``, and to explain
more of its surroundings than a straight line does: or it is a drift.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from metalbench.results.statistics import SMALLEST_DIFFERENCE

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

CLIP = 3.0  #: robust standard deviations beyond which a point weighs no more; 2 blurs where a large step lies, 5 lets tails through
PULSE_CLIP = 5.0  #: the same for a pulse, which has few points to show and two ends that tell it from a tail
LEAST = 3  #: points of a level that the scans can find
LONGEST_PULSE = 100  #: points; what is longer shows as two steps
EXPONENT = 0.6  #: of the length in a weight; 0.5 would be the standard deviation of the sum
LATE = 0.15  #: how much stricter a step at the very beginning is judged than one at the very end
QUARTILES = 1.349  #: standard deviations between the quartiles of normal points
PAIR = 3.5  #: robust standard deviations beyond which two runs in succession are a new level, and one is a suspect
FEW = 1 / 20  #: of a level's points may lie as far out as one that is outside of it

#: Series length → what the scan for a step exceeds in 0.5 % of series without one, and that for a pulse in 0.1 %: the largest value of
#: normal noise, Student t noise with 3 degrees of freedom and, from 12 points on, noise of two values: four of one and then four of the
#: other are a step, whatever tossed the coin. Made by ``python tests/benchmarks/change_points.py bounds``.
LENGTHS = (6, 8, 10, 12, 16, 24, 40, 60, 100, 200, 500, 1000, 2000, 5000)
STEP = (2.07, 2.26, 2.38, 2.52, 2.60, 2.69, 2.79, 2.83, 2.87, 2.89, 2.91, 2.91, 2.92, 2.93)
PULSE = (3.60, 3.60, 3.95, 5.12, 6.00, 4.85, 4.83, 5.03, 5.17, 5.35, 5.50, 5.73, 5.85, 5.90)


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
    if evidence > _bound(STEP, n):
        cuts = [int(place)]
    else:
        first, last, evidence = pulse_scan(pulse_sums(logs, floor))
        if evidence > _bound(PULSE, n):
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
        cut, strength = int(place), float(evidence) / _bound(STEP, len(near))
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
    evidence = abs(float(step_sums(near, floor)[cut])) / float(_weights(n)[cut])
    strength = max(1.0, evidence / _bound(STEP, n))  # a pair at the end is not the scan's to judge
    return ChangePoint(start + cut, math.exp(size), math.exp(size - reach), math.exp(size + reach), strength)


def _spread(logs: Array, centre: float) -> float:
    """The standard deviation of normal points, from their median distance to the centre."""
    return 2 / QUARTILES * float(np.median(np.abs(logs - centre)))


def step_sums(logs: Array, floor: float) -> Array:
    """Cumulative sums [..., n + 1] of the scores of ``logs`` [..., n], in units of their standard deviation."""
    scores = _scores(logs, CLIP, floor)
    return _cumulated(scores, np.mean(scores**2, axis=-1, keepdims=True))


def pulse_sums(logs: Array, floor: float) -> Array:
    """The same in units of the standard deviation that neighbours' differences show, which levels that alternate do not widen."""
    scores = _scores(logs, PULSE_CLIP, floor)
    return _cumulated(scores, np.mean(np.diff(scores, axis=-1) ** 2, axis=-1, keepdims=True) / 2)


def _scores(logs: Array, clip: float, floor: float) -> Array:
    low, middle, high = np.quantile(logs, (0.25, 0.5, 0.75), axis=-1, keepdims=True)
    reach = clip * (high - low) / QUARTILES  # unlike the median distance to the centre, no less for points on two levels
    reach = np.maximum(reach, floor)  # what is too small to matter is no outlier: a series may be all but constant
    scores: Array = np.clip(logs - middle, -reach, reach)
    scores -= scores.mean(axis=-1, keepdims=True)
    return scores


def _cumulated(scores: Array, variance: Array) -> Array:
    scores = scores / np.sqrt(np.where(variance > 0, variance, 1))
    return np.concatenate([np.zeros_like(scores[..., :1]), np.cumsum(scores, axis=-1)], axis=-1)


def _weights(n: int) -> Array:
    """What a sum of standardised scores up to each cut of a series of ``n`` is judged by [n + 1]; cuts at the ends are none."""
    cut = np.arange(n + 1)
    with np.errstate(divide="ignore"):
        return np.where((cut >= LEAST) & (cut <= n - LEAST), (cut * (n - cut) / n) ** EXPONENT * (1 + LATE * (1 - cut / n)), np.inf)


def step_scan(sums: Array) -> tuple[Array, Array]:
    """The likeliest cut and the evidence for it, from cumulative sums [..., n + 1]."""
    evidence = np.abs(sums) / _weights(sums.shape[-1] - 1)
    return np.argmax(evidence, axis=-1), np.max(evidence, axis=-1)


def pulse_scan(sums: Array) -> tuple[Array, Array, Array]:
    """The likeliest pulse, its first point and the first after it, and the evidence for it, from cumulative sums [..., n + 1]."""
    n = sums.shape[-1] - 1
    best, first, last = (np.zeros(sums.shape[:-1]) for _ in range(3))
    for length in range(LEAST, min(LONGEST_PULSE, n // 2, n - 2 * LEAST) + 1):
        evidence = np.abs(sums[..., LEAST + length : n - LEAST + 1] - sums[..., LEAST : n - LEAST - length + 1])
        place = np.argmax(evidence, axis=-1)
        found = np.max(evidence, axis=-1) / (length * (n - length) / n) ** EXPONENT
        better = found > best
        best, first = np.where(better, found, best), np.where(better, place + LEAST, first)
        last = np.where(better, place + LEAST + length, last)
    return first, last, best


def _bound(bounds: Sequence[float], n: int) -> float:
    return float(np.interp(math.log(n), np.log(LENGTHS), bounds))
