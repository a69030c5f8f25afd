"""What launches say of a ratio of two times. Pure.

A launch's median is one observation: samples within a process are not independent. Times are positive and skewed, their logarithms
nearly normal, and the logarithm of a ratio is a difference of logarithms, to which Student's t applies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

TRIMMED = 0.2  #: share of pairs that is left out at either end
LEAST_SPREAD = 0.002  #: relative; no process repeats itself better than this, however alike three launches may look


class Contrast(NamedTuple):
    """Of log(candidate / base): the estimate to show, the centre of its distribution, that one's standard error and degrees of freedom.

    ``point`` is from medians, which a reader can check; ``centre`` from means. No standard error where there is a single observation.
    ``doubt``: by how much the machine itself was another between the sides; an effect within it is none of the work's.
    """

    point: float
    centre: float
    error: float | None
    freedom: float
    doubt: float = 0.0

    @property
    def p(self) -> float:
        """Two-sided, for no difference; 1 where nothing is known of the spread."""
        if self.error is None:
            return 1.0
        beyond_doubt = max(0.0, abs(self.centre) - self.doubt)
        return min(1.0, 2 * float(stdtr(self.freedom, -beyond_doubt / self.error)))

    def interval(self, level: float) -> tuple[float, float]:
        """Around the centre, ``doubt`` included; infinite where nothing is known of the spread."""
        if self.error is None:
            return -math.inf, math.inf
        reach = float(stdtrit(self.freedom, (1 + level) / 2)) * self.error + self.doubt
        return self.centre - reach, self.centre + reach


def unpaired(base: Sequence[float], candidate: Sequence[float], least_spread: float = LEAST_SPREAD) -> Contrast:
    """From the positive launch medians of two runs, by Welch's method (Biometrika 34, 1947)."""
    logs = [np.log(base), np.log(candidate)]
    point = float(np.median(logs[1]) - np.median(logs[0]))
    centre = float(np.mean(logs[1]) - np.mean(logs[0]))
    if min(len(base), len(candidate)) < 2:
        return Contrast(point, centre, None, 0)
    a, b = (max(float(np.var(side, ddof=1)), least_spread**2) / len(side) for side in logs)
    freedom = (a + b) ** 2 / (a**2 / (len(base) - 1) + b**2 / (len(candidate) - 1))
    return Contrast(point, centre, math.sqrt(a + b), freedom)


def paired(log_ratios: Sequence[float]) -> Contrast:
    """From log(candidate / base) of pairs that were measured in turn, by the trimmed mean: one pair in twenty may be far off.

    Tukey and McLaughlin's test (Sankhya A 25, 1963): the mean without a fifth at either end, its error from the winsorised spread.
    """
    point, n = float(np.median(log_ratios)), len(log_ratios)
    if n < 2:
        return Contrast(point, point, None, 0)
    cut = int(TRIMMED * n)
    ordered = np.sort(log_ratios)
    kept = ordered[cut : n - cut]
    spread = max(float(np.std(np.clip(ordered, kept[0], kept[-1]), ddof=1)), LEAST_SPREAD)
    return Contrast(point, float(np.mean(kept)), spread * math.sqrt(n - 1) / math.sqrt(len(kept) * (len(kept) - 1)), len(kept) - 1)


def steady(base: Sequence[float], candidate: Sequence[float], spread: float) -> Contrast:
    """From figures that hardly vary between launches, so that one on each side will do: the relative ``spread`` is known, or exceeded."""
    if min(len(base), len(candidate)) > 1:
        return unpaired(base, candidate, spread)
    effect = math.log(float(np.median(candidate)) / float(np.median(base)))
    return Contrast(effect, effect, spread * math.sqrt(1 / len(base) + 1 / len(candidate)), math.inf)
