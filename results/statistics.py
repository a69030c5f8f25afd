"""What several launches say together. Pure. A launch's median is one observation: samples within a process are not independent."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

CONFIDENCE = 0.95
SMALLEST_DIFFERENCE = 0.01  #: relative; less than what timers and loops differ by, so it decides nothing


class Estimate(NamedTuple):
    """Time per call in ns with its 95 % interval over launches; no interval from a single launch."""

    median: float
    low: float | None
    high: float | None


def estimate(medians: Sequence[float]) -> Estimate:
    """From the positive medians of launches: their median, and the t interval of their mean logarithm, widened to hold it.

    Times are positive and skewed, their logarithms nearly normal (Student's t; any textbook of statistics).
    """
    point = statistics.median(medians)
    if len(medians) < 2:
        return Estimate(point, None, None)
    from scipy.special import stdtrit  # noqa: PLC0415 - not for a single launch

    logs = [math.log(value) for value in medians]
    reach = float(stdtrit(len(logs) - 1, (1 + CONFIDENCE) / 2)) * statistics.stdev(logs) / math.sqrt(len(logs))
    centre = statistics.fmean(logs)
    return Estimate(point, min(point, math.exp(centre - reach)), max(point, math.exp(centre + reach)))


def tied(medians: Sequence[float], best: Sequence[float]) -> bool:
    """Whether two sets of launch medians can't be told apart: Welch's test on logarithms at 5 %, or less than 1 % between them.

    With a single launch on either side nothing can be told apart.
    """
    if len(medians) < 2 or len(best) < 2:
        return True
    if abs(statistics.median(medians) / statistics.median(best) - 1) < SMALLEST_DIFFERENCE:
        return True
    from metalbench.results.contrast import unpaired  # noqa: PLC0415 - brings SciPy, which a single launch does without

    return unpaired(medians, best, least_spread=1e-9).p > 1 - CONFIDENCE
