"""When a cell has been sampled enough: small rules, each with a name that goes into the record."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Protocol


class Rule(Protocol):
    name: str

    def met(self, samples: Sequence[float], elapsed: float) -> bool:
        """Whether to stop, given the samples so far and the nanoseconds spent on them. Called at growing intervals."""


class Precision:
    """The median is known to ``relative`` (half-width of its 95 % interval over itself).

    The interval is the distribution-free one from order statistics: ranks n/2 ± 0.98·√n (binomial with p = 1/2, normal
    approximation; Conover, Practical Nonparametric Statistics, §3.2). Needs ``least`` samples, below which the ranks fall outside.
    """

    name = "precision"

    def __init__(self, relative: float = 0.01, least: int = 10) -> None:
        self.relative, self.least = relative, least

    def met(self, samples: Sequence[float], elapsed: float) -> bool:  # noqa: ARG002 - the rule's signature
        n = len(samples)
        if n < self.least:
            return False
        ordered = sorted(samples)
        reach = 0.98 * math.sqrt(n)
        low = ordered[max(0, math.floor(n / 2 - reach))]
        high = ordered[min(n - 1, math.ceil(n / 2 + reach))]
        return (high - low) / 2 <= self.relative * statistics.median(ordered)


class StableNoise:
    """The spread has settled: more samples would describe the same noise, not remove it.

    The interquartile range over the median, looked at each time, stayed within ``tolerance`` of its mean over the last ``looks``
    looks, and at least ``after`` nanoseconds were spent.
    """

    name = "noise"

    def __init__(self, after: float, tolerance: float = 0.05, looks: int = 5, least: int = 50) -> None:
        self.after, self.tolerance, self.looks, self.least = after, tolerance, looks, least
        self._history: list[float] = []

    def met(self, samples: Sequence[float], elapsed: float) -> bool:
        if len(samples) < self.least:
            return False
        low, middle, high = statistics.quantiles(samples, n=4)
        self._history.append((high - low) / middle)
        last = self._history[-self.looks :]
        mean = statistics.fmean(last)
        settled = len(last) == self.looks and max(abs(spread - mean) for spread in last) <= self.tolerance * mean
        return settled and elapsed >= self.after


class Budget:
    """The cell's time is used up. At least ``least`` samples are taken whatever they cost: fewer say nothing about spread."""

    name = "budget"

    def __init__(self, nanoseconds: float, least: int = 5) -> None:
        self.nanoseconds, self.least = nanoseconds, least

    def met(self, samples: Sequence[float], elapsed: float) -> bool:
        return len(samples) >= self.least and elapsed >= self.nanoseconds


def rules(budget: float) -> list[Rule]:
    """The rules for a budget in seconds, in the order they are asked."""
    return [Precision(), StableNoise(after=budget * 0.5e9), Budget(budget * 1e9)]
