"""Which right answers to a case are the fastest: the one rule for order, ratio and star, wherever they are shown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import NamedTuple

from metalbench.results.statistics import tied
from metalbench.results.summary import Summary


class Ranked(NamedTuple):
    """A right answer among those to one case. ``ratio``: its median to the fastest's; ``star``: the fastest, or tied with it."""

    summary: Summary
    ratio: float
    star: bool


def ranking(summaries: Iterable[Summary]) -> list[Ranked]:
    """Those that are ranked, the fastest first. From a single launch of the fastest nothing gets a star."""
    times = sorted(((statistics.median(s.medians), s) for s in summaries if s.ranked), key=lambda pair: pair[0])
    if not times:
        return []
    least, best = times[0]
    sure = len(best.medians) > 1
    return [Ranked(s, time / least, sure and (s is best or tied(s.medians, best.medians))) for time, s in times]
