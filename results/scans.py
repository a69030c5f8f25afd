"""Two scans of a series for changes in the mean of its scores, and what noise reaches in them. Pure; they work on many series at once.

Cumulative sums are divided by a little more than their standard deviation: a long level can afford stricter evidence, and what that
saves is spent on levels of a few points, foremost on those at the end, where somebody waits for an answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

CLIP = 3.0  #: robust standard deviations beyond which a point weighs no more; 2 blurs where a large step lies, 5 lets tails through
PULSE_CLIP = 5.0  #: the same for a pulse, which has few points to show and two ends that tell it from a tail
LEAST = 3  #: points of a level that the scans can find
LONGEST_PULSE = 100  #: points; what is longer shows as two steps
EXPONENT = 0.6  #: of the length in a weight; 0.5 would be the standard deviation of the sum
LATE = 0.15  #: how much stricter a step at the very beginning is judged than one at the very end
QUARTILES = 1.349  #: standard deviations between the quartiles of normal points

#: Series length → what the scan for a step exceeds in 0.5 % of series without one, and that for a pulse in 0.1 %: the largest value of
#: normal noise, Student t noise with 3 degrees of freedom and, from 12 points on, noise of two values: four of one and then four of the
#: other are a step, whatever tossed the coin. Made by ``python tests/benchmarks/change_points.py bounds``.
LENGTHS = (6, 8, 10, 12, 16, 24, 40, 60, 100, 200, 500, 1000, 2000, 5000)
STEP = (2.07, 2.26, 2.38, 2.52, 2.60, 2.69, 2.79, 2.83, 2.87, 2.89, 2.91, 2.91, 2.92, 2.93)
PULSE = (3.60, 3.60, 3.95, 5.12, 6.00, 4.85, 4.83, 5.03, 5.17, 5.35, 5.50, 5.73, 5.85, 5.90)


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


def weights(n: int) -> Array:
    """What a sum of standardised scores up to each cut of a series of ``n`` is judged by [n + 1]; cuts at the ends are none."""
    cut = np.arange(n + 1)
    with np.errstate(divide="ignore"):
        return np.where((cut >= LEAST) & (cut <= n - LEAST), (cut * (n - cut) / n) ** EXPONENT * (1 + LATE * (1 - cut / n)), np.inf)


def step_scan(sums: Array) -> tuple[Array, Array]:
    """The likeliest cut and the evidence for it, from cumulative sums [..., n + 1]."""
    evidence = np.abs(sums) / weights(sums.shape[-1] - 1)
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


def bound(bounds: Sequence[float], n: int) -> float:
    return float(np.interp(math.log(n), np.log(LENGTHS), bounds))
