"""Did it change? Verdicts on many ratios at once. Pure.

They are judged together, since forty honest tests at 1 % raise an alarm in every third comparison of equals:

- Benjamini and Hochberg's procedure bounds the share of false alarms among all alarms (J. R. Stat. Soc. B 57, 1995), which among equals
  is the chance of any alarm;
- the intervals shown have the level that makes them agree with it (Benjamini and Yekutieli, J. Am. Stat. Assoc. 100, 2005);
- both believe that the noise is normal. Launches of a busy machine are not: some run fast, others at a third of the speed, and three
  that happen to be alike prove nothing. So shuffling must agree too, which believes nothing (``shuffles``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from metalbench.results.contrast import Contrast

Verdict = Literal["slower", "faster", "same", "unsure"]

FALSE_DISCOVERY = 0.01  #: of verdicts that something changed, the share that may be wrong
THRESHOLD = 0.03  #: relative; a smaller effect is no news
SHUFFLED = 0.005  #: share of shuffles that may show as much
EQUIVALENCE = 0.90  #: level of the interval that must lie inside the threshold for "same": two one-sided tests at 5 %


class Evidence(NamedTuple):
    """What is known of one ratio: by Student, and the share of shuffles that show as much, of which ``least`` is the smallest possible."""

    contrast: Contrast
    share: float = 0.0
    least: float = 0.0


class Judgement(NamedTuple):
    """``ratio`` of candidate to base, with the interval that decides: of the adjusted level, or that of equivalence for "same".

    0 … ∞ where nothing is known of the spread.
    """

    verdict: Verdict
    ratio: float
    low: float
    high: float


def judge(
    evidence: Sequence[Evidence],
    *,
    threshold: float = THRESHOLD,
    false_discovery: float = FALSE_DISCOVERY,
    shuffled: float = SHUFFLED,
    rare: float = FALSE_DISCOVERY,
    equivalence: float = EQUIVALENCE,
    family: int = 0,
) -> list[Judgement]:
    """A verdict on each ratio, all of them taken together, and with further ones where the whole ``family`` is larger.

    Slower or faster: the adjusted interval excludes 1, the estimate passes ``threshold``, and no more than ``shuffled`` of the shuffles
    show as much, or as few as so few launches can show, if that is at most ``rare``. Same: the interval of level ``equivalence`` lies
    inside ``threshold``. Else unsure.
    """
    if not evidence:
        return []
    level = 1 - _significance([found.contrast.p for found in evidence], false_discovery, max(family, len(evidence)))
    return [
        _judge(found.contrast, level, math.log1p(threshold), equivalence, rare=found.share <= _allowed(found.least, shuffled, rare))
        for found in evidence
    ]


def _allowed(least: float, shuffled: float, rare: float) -> float:
    """Five launches a side can't show less than 2 of 252 shuffles, and that will do; four can't show less than 2 of 70."""
    return max(shuffled, least if least <= rare else 0.0) + 1e-12


def _significance(p: Sequence[float], q: float, family: int) -> float:
    """The p-value up to which the procedure takes effects for real; where it takes none, what the first would have needed."""
    ranks = np.arange(1, len(p) + 1)
    passed = ranks[np.sort(p) <= q * ranks / family]
    return q * int(passed.max(initial=1)) / family


def _judge(contrast: Contrast, level: float, least: float, equivalence: float, *, rare: bool) -> Judgement:
    low, high = contrast.interval(level)
    inner_low, inner_high = contrast.interval(equivalence)
    verdict: Verdict = "unsure"
    if rare and low > 0 and contrast.point > least:
        verdict = "slower"
    elif rare and high < 0 and contrast.point < -least:
        verdict = "faster"
    elif -least < min(inner_low, contrast.point) and max(inner_high, contrast.point) < least:
        verdict, low, high = "same", inner_low, inner_high
    low, high = min(low, contrast.point), max(high, contrast.point)  # the interval shown holds the estimate shown
    return Judgement(verdict, *(math.exp(min(value, 700.0)) for value in (contrast.point, low, high)))
