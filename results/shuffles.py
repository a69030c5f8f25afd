"""How often chance alone would look like this: launches shuffled between the two sides, all cells at once. Pure.

Among equals it does not matter which side a launch is on. So the share of shuffles in which *any* cell looks as extreme as this one does
bounds the chance of any alarm, however wild the noise and however much cells that share a process swing together, which no formula for a
single cell can promise (Westfall and Young, Resampling-based multiple testing, 1993: the step of the largest statistic).
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metalbench.results.contrast import LEAST_SPREAD, TRIMMED

Floats = NDArray[np.float64]

MOST = 5000  #: shuffles; where there are no more than so many, all are tried
ROUNDING = 1e-9  #: relative; a shuffle that is the mirror of what was seen counts as its equal


class Shares(NamedTuple):
    """Per cell the share of shuffles that show as much in any cell, and the least that so few launches or pairs could have."""

    shares: list[float]
    least: float


def of_launches(base: Floats, candidate: Floats) -> Shares:
    """The launches are divided between the sides in other ways.

    Log medians [cells, launches], NaN where a launch has none; the two sides may have different numbers of launches.
    """
    values = np.hstack([base, candidate])
    present = ~np.isnan(values)
    centred = np.where(present, values - np.nanmean(values, axis=1, keepdims=True), 0.0)
    ours = _divisions(base.shape[1], candidate.shape[1])
    a, b = (_moments(centred, present, side) for side in (ours, 1 - ours))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(a[0] - b[0]) / np.sqrt(a[1] + b[1])
    return Shares(_shares(np.where(np.isfinite(t), t, 0.0)), least_share(base.shape[1], candidate.shape[1]))


def least_share(a: int, b: int) -> float:
    """The smallest share that ``a`` launches against ``b`` can have: what was seen, and its mirror image where there is one."""
    return (2 if a == b else 1) / min(math.comb(a + b, a), MOST + 1)


def of_pairs(log_ratios: Floats) -> Shares:
    """The sides of some pairs are swapped. Log ratios [cells, pairs], NaN where a pair has none.

    The largest fifth, whatever their sign, count as no more than the others: a swap changes nothing of that.
    """
    present = ~np.isnan(log_ratios)
    values = np.where(present, log_ratios, 0.0)
    sizes = np.where(present, np.abs(log_ratios), np.nan)
    largest = np.nanquantile(sizes, 1 - TRIMMED, axis=1, keepdims=True, method="lower")
    values = np.clip(values, -largest, largest)
    count = present.sum(axis=1, keepdims=True)
    mean = values @ _signs(log_ratios.shape[1]) / np.maximum(count, 1)
    squares = (values**2).sum(axis=1, keepdims=True)
    variance = np.maximum((squares - count * mean**2) / np.maximum(count - 1, 1), LEAST_SPREAD**2)
    statistic = np.where(count > 1, np.abs(mean) / np.sqrt(variance / np.maximum(count, 1)), 0.0)
    return Shares(_shares(statistic), 2 / statistic.shape[1])


def _moments(values: Floats, present: NDArray[np.bool_], side: Floats) -> tuple[Floats, Floats]:
    """Mean and squared standard error [cells, divisions] of the launches on one side; NaN or infinite with fewer than two."""
    with np.errstate(divide="ignore", invalid="ignore"):
        count = present @ side
        mean = values @ side / count
        variance = np.maximum((values**2 @ side - count * mean**2) / (count - 1), LEAST_SPREAD**2)
        return mean, np.where(count > 1, variance / count, np.inf)


def _shares(statistic: Floats) -> list[float]:
    """The first column is what was seen; per row, the share of columns whose largest reaches it, as a mirror image does always."""
    largest = np.sort(statistic.max(axis=0))
    shares: list[float] = (1 - np.searchsorted(largest, statistic[:, 0] * (1 - ROUNDING)) / len(largest)).tolist()
    return shares


@cache
def _divisions(a: int, b: int) -> Floats:
    """[a + b, divisions]: 1 where a launch is on the first side; the first column is as it was."""
    if math.comb(a + b, a) <= MOST:
        chosen = np.array(list(itertools.combinations(range(a + b), a)))  # in lexicographic order, so that (0, 1, … a - 1) comes first
    else:
        random = np.random.default_rng(0).random((MOST, a + b)).argsort(axis=1)[:, :a]
        chosen = np.vstack([np.arange(a), random])
    out = np.zeros((a + b, len(chosen)))
    np.put_along_axis(out, chosen.T, 1, axis=0)
    return out


@cache
def _signs(pairs: int) -> Floats:
    """[pairs, swaps] of ±1; the first column is as it was."""
    if 2**pairs <= MOST:
        return np.array(list(itertools.product((1.0, -1.0), repeat=pairs))).T
    random = np.random.default_rng(0).choice([1.0, -1.0], size=(pairs, MOST))
    return np.hstack([np.ones((pairs, 1)), random])
