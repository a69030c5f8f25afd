"""Looking at pairs while they are measured: few planned looks, between which the chance of a false verdict is shared out. Pure.

Looking after every pair until one is "decided" turns 1 % of false verdicts into six. What each of four looks may spend comes from a
function of the share of pairs measured so far, whose increments sum to what the whole may spend (Lan and DeMets, Biometrika 70, 1983).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from scipy.special import ndtr, ndtri

from metalbench.results.evidence import Pair, of_pairs
from metalbench.results.verdicts import EQUIVALENCE, FALSE_DISCOVERY, Judgement, judge

LOOKS = (1 / 4, 5 / 8, 13 / 16, 1)  #: shares of the pairs after which a look is planned; ten are the fewest that shuffling can be asked of
RARE = 0.002  #: the least share of swaps that eight, nine, ten pairs can show, 2 in 2 to the power of them, counts if it is no more


class Look(NamedTuple):
    """After ``pairs`` of them, changes may spend ``change`` of false discovery and of shuffles, and "same" a share ``same`` of errors."""

    pairs: int
    change: float
    same: float
    last: bool


def looks(pairs: int) -> list[Look]:
    """Those planned for ``pairs`` at most, 4 at least.

    Changes by O'Brien and Fleming's function, which spends next to nothing on the first pairs, when an accident looks like an effect;
    "same" by Pocock's, which spends evenly: a wrong "same" costs less than the time to avoid it.
    """
    out = []
    spent_change = spent_same = 0.0
    for share in LOOKS:
        count = math.ceil(pairs * share)
        change, same = _late(count / pairs, FALSE_DISCOVERY), _even(count / pairs, 1 - EQUIVALENCE)
        out.append(Look(count, change - spent_change, same - spent_same, last=share == 1))
        spent_change, spent_same = change, same
    return out


def _late(share: float, alpha: float) -> float:
    return float(2 - 2 * ndtr(ndtri(1 - alpha / 2) / math.sqrt(share)))


def _even(share: float, alpha: float) -> float:
    return alpha * math.log(1 + (math.e - 1) * share)


def verdicts(pairs: Mapping[int, Pair], planned: int, *, threshold: float, family: int) -> dict[int, Judgement]:
    """The verdicts by place, look by look, as far as pairs are there; of which there may be ``planned``.

    A cell takes part until it has one. ``family``: how many cells are judged altogether, those that can't be among them.
    """
    judged: dict[int, Judgement] = {}
    shared = {place: len(base.by_launch.keys() & candidate.by_launch.keys()) for place, (base, candidate) in pairs.items()}
    for number, look in enumerate(looks(max(planned, len(LOOKS)))):
        reached = [place for place, count in shared.items() if count >= look.pairs or number == 0]
        waiting = [place for place in reached if place not in judged or judged[place].verdict == "unsure"]
        found = judge(
            of_pairs([pairs[place] for place in waiting], look.pairs),
            threshold=threshold,
            false_discovery=look.change,
            shuffled=look.change,
            rare=FALSE_DISCOVERY if look.last else RARE,
            equivalence=1 - look.same,
            family=family,
        )
        judged |= dict(zip(waiting, found, strict=True))
    return judged
