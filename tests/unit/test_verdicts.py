"""Contrasts, shuffles, verdicts and looks, against SciPy, against brute force, and by how often they are wrong."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support.records import make_cell, timed

from metalbench.results import sequential, shuffles
from metalbench.results.contrast import LEAST_SPREAD, Contrast, paired, steady, unpaired
from metalbench.results.sequential import looks
from metalbench.results.summary import Summary
from metalbench.results.verdicts import Evidence, judge

positive = st.floats(1e3, 1e9)


@given(base=st.lists(positive, min_size=2, max_size=12), candidate=st.lists(positive, min_size=2, max_size=12))
def test_two_runs_are_compared_by_welch_s_test_on_logarithms(base, candidate):
    logs = np.log(base), np.log(candidate)
    found = unpaired(base, candidate)
    assert found.point == pytest.approx(np.median(logs[1]) - np.median(logs[0]))
    if min(side.std(ddof=1) for side in logs) > LEAST_SPREAD:
        theirs = stats.ttest_ind(logs[1], logs[0], equal_var=False)
        assert found.p == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-12)
        low, high = theirs.confidence_interval(0.9)
        assert found.interval(0.9) == pytest.approx((low, high), rel=1e-6, abs=1e-9)


@given(ratios=st.lists(st.floats(-1, 1), min_size=2, max_size=16))
def test_pairs_are_compared_by_a_trimmed_mean(ratios):
    """Its centre is SciPy's; its error is Yuen's test of SciPy against a side without spread."""
    found, cut = paired(ratios), int(0.2 * len(ratios))
    assert found.centre == pytest.approx(stats.trim_mean(ratios, 0.2), abs=1e-12)
    winsorised = np.asarray(stats.mstats.winsorize(np.array(ratios), (cut / len(ratios),) * 2))
    if winsorised.std(ddof=1) > LEAST_SPREAD:
        kept = len(ratios) - 2 * cut
        error = winsorised.std(ddof=1) * math.sqrt((len(ratios) - 1) / (kept * (kept - 1)))
        assert found.p == pytest.approx(2 * stats.t.sf(abs(found.centre) / error, kept - 1), rel=1e-6, abs=1e-12)


def test_a_pair_in_eight_that_is_far_off_hides_nothing():
    ratios = [0.06, 0.061, 0.059, 0.06, 0.062, 0.058, 0.06, -0.9]
    assert paired(ratios).p < 1e-4
    assert shuffles.of_pairs(np.array([ratios])).shares[0] <= 0.08


def test_a_single_launch_says_nothing_of_time_and_enough_of_a_steady_peak():
    assert unpaired([5.0], [9.0]).p == 1
    assert unpaired([5.0], [9.0]).interval(0.9) == (-math.inf, math.inf)
    assert steady([100.0], [200.0], 0.005).p < 1e-6
    assert steady([100.0], [100.5], 0.005).p > 0.1


def test_a_doubt_about_the_machine_swallows_an_effect_of_its_size():
    sure = unpaired([1000, 1001, 1002, 1003, 1004], [1100, 1101, 1102, 1103, 1104])
    doubtful = sure._replace(doubt=math.log(1.12))
    assert sure.p < 1e-6
    assert doubtful.p == 1
    low, high = doubtful.interval(0.9)
    assert low < 0 < high


@settings(max_examples=30)
@given(st.integers(0, 1000))
def test_shares_are_those_of_all_divisions(seed):
    """Against a plain loop over all divisions, with launches missing here and there."""
    rng = np.random.default_rng(seed)
    base, candidate = rng.normal(0, 1, (3, 4)), rng.normal(0.5, 1, (3, 3))
    base[0, 1] = candidate[2, 2] = math.nan
    values = np.hstack([base, candidate])

    def statistic(row, ours):
        sides = [[value for place, value in enumerate(row) if (place in ours) == side and not math.isnan(value)] for side in (True, False)]
        if min(map(len, sides)) < 2:
            return 0.0
        error = sum(max(np.var(side, ddof=1), LEAST_SPREAD**2) / len(side) for side in sides)
        return abs(np.mean(sides[0]) - np.mean(sides[1])) / math.sqrt(error)

    largest = [max(statistic(row, set(ours)) for row in values) for ours in itertools.combinations(range(7), 4)]
    found = shuffles.of_launches(base, candidate)
    for row, share in zip(values, found.shares, strict=True):
        seen = statistic(row, {0, 1, 2, 3})
        assert share == pytest.approx(np.mean([value >= seen - 1e-9 for value in largest]))
    assert found.least == pytest.approx(1 / 35), "four against three have no mirror image"


def test_pairs_can_be_swapped_in_as_many_ways_as_there_are_signs():
    ratios = np.array([[0.1, 0.12, 0.09, 0.11, 0.1, 0.1, 0.12, 0.11], [0.1, -0.1, 0.1, -0.1, 0.1, -0.1, 0.1, -0.1]])
    found = shuffles.of_pairs(ratios)
    assert found.least == pytest.approx(2 / 256)
    assert found.shares[0] == pytest.approx(4 / 256), "every second pair swapped, the other cell shows as much, and so do both mirrors"
    assert found.shares[1] > 0.2


def verdicts(base, candidate, **options):
    """From log medians [cells, launches] of two runs."""
    shares = shuffles.of_launches(base, candidate)
    contrasts = [unpaired(np.exp(a), np.exp(b)) for a, b in zip(base, candidate, strict=True)]
    evidence = [Evidence(contrast, share, shares.least) for contrast, share in zip(contrasts, shares.shares, strict=True)]
    return [found.verdict for found in judge(evidence, **options)]


def noise(kind, rng, shape):
    """Of standard deviation 5 %. ``together``: all cells of a launch are fast or slow, as those that share a process are."""
    draws = {
        "normal": lambda: rng.standard_normal(shape),
        "heavy": lambda: rng.standard_t(3, shape) / math.sqrt(3),
        "bimodal": lambda: rng.choice([-1, 1], shape) + 0.05 * rng.standard_normal(shape),
        "together": lambda: rng.choice([-1, 1], shape[-1]) + 0.05 * rng.standard_normal(shape),
    }
    return 0.05 * draws[kind]()


@pytest.mark.parametrize("launches", [3, 5, 8])
@pytest.mark.parametrize("kind", ["normal", "heavy", "bimodal", "together"])
def test_equals_are_hardly_ever_told_apart_whatever_the_noise(kind, launches):
    """1 % of comparisons may raise an alarm; of 400, more than 10 would be one chance in a thousand."""
    rng = np.random.default_rng(launches)
    pairs = ((noise(kind, rng, (12, launches)), noise(kind, rng, (12, launches))) for _ in range(400))
    alarms = sum(bool({"slower", "faster"} & set(verdicts(*sides))) for sides in pairs)
    assert alarms <= 10


def test_a_real_change_is_found_among_equals():
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(100):
        base, candidate = noise("normal", rng, (40, 8)), noise("normal", rng, (40, 8))
        candidate[7] += math.log(1.3)
        result = verdicts(base, candidate)
        found += result[7] == "slower"
    assert found >= 95


def test_three_launches_never_decide():
    assert verdicts(np.log([[1.0, 1.0, 1.0]]), np.log([[3.0, 3.0, 3.0]])) == ["unsure"]
    assert verdicts(np.log([[1.0] * 5]), np.log([[3.0] * 5])) == ["slower"]


def test_a_sure_but_small_change_is_no_news():
    base, candidate = np.full((1, 10), math.log(1000.0)), np.full((1, 10), math.log(1020.0))
    assert verdicts(base, candidate) == ["same"]
    assert verdicts(base, candidate, threshold=0.01) == ["slower"]
    assert verdicts(candidate, base, threshold=0.01) == ["faster"]


@given(st.lists(st.floats(-0.3, 0.3), min_size=1, max_size=30), st.integers(0, 100))
def test_an_interval_excludes_one_just_where_the_procedure_rejects(effects, seed):
    """The adjusted intervals agree with SciPy's Benjamini–Hochberg, and hold their estimates."""
    errors = np.random.default_rng(seed).uniform(0.01, 0.05, len(effects))
    contrasts = [Contrast(effect, effect, error, 8) for effect, error in zip(effects, errors, strict=True)]
    rejected = stats.false_discovery_control([contrast.p for contrast in contrasts]) <= 0.01
    judged = judge([Evidence(contrast) for contrast in contrasts], equivalence=0.999999)  # nothing is the same
    for found, reject in zip(judged, rejected, strict=True):
        assert (found.low > 1 or found.high < 1) == reject
        assert found.low <= found.ratio <= found.high


@given(st.integers(4, 200))
def test_looks_spend_what_the_whole_may_spend(pairs):
    planned = looks(pairs)
    assert [planned[-1].pairs, planned[-1].last] == [pairs, True]
    assert sum(look.change for look in planned) == pytest.approx(0.01)
    assert sum(look.same for look in planned) == pytest.approx(0.10)
    assert planned[0].change < 1e-4


def in_turn(log_ratios):
    """A cell on both sides, a launch a pair."""
    base = [timed(make_cell(), launch, [10**9]) for launch in range(len(log_ratios))]
    candidate = [timed(make_cell(), launch, [round(10**9 * math.exp(ratio))]) for launch, ratio in enumerate(log_ratios)]
    return Summary(base), Summary(candidate)


@pytest.mark.parametrize("kind", ["normal", "heavy", "tossed"])
def test_pairs_of_equals_are_hardly_ever_told_apart_over_all_looks(kind):
    """1 % of contests may end in a false verdict; of 500, more than 12 would be one chance in a thousand."""
    rng = np.random.default_rng(3)
    draws = {
        "normal": lambda: 0.1 * rng.standard_normal(16),
        "heavy": lambda: 0.1 * rng.standard_t(3, 16),
        "tossed": lambda: 0.1 * rng.choice([-1, 1], 16) + 0.001 * rng.standard_normal(16),
    }
    alarms = sum(
        sequential.verdicts({0: in_turn(draws[kind]())}, 16, threshold=0.03, family=1)[0].verdict in {"slower", "faster"}
        for _ in range(500)
    )
    assert alarms <= 12


def test_pairs_tell_a_change_as_soon_as_a_look_may():
    rng = np.random.default_rng(4)
    for _ in range(20):
        ratios = math.log(1.06) + 0.01 * rng.standard_normal(16)
        assert sequential.verdicts({0: in_turn(ratios[:10])}, 16, threshold=0.03, family=1)[0].verdict == "slower"
        assert sequential.verdicts({0: in_turn(ratios[:4])}, 16, threshold=0.03, family=1)[0].verdict == "unsure"
    assert sequential.verdicts({0: in_turn(0.002 * rng.standard_normal(4))}, 16, threshold=0.03, family=1)[0].verdict == "same"
