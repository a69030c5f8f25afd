"""Sampling by a clock that the test drives: what is claimed about time is shown without spending any."""

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metalbench.harness.measure import LEAST_SPAN, clock_resolution, measure
from metalbench.harness.stopping import Budget, Precision, StableNoise, rules


class Machine:
    """A clock and a piece of work on it; ``durations`` gives the ns of each call in turn, the last one for ever."""

    def __init__(self, durations, step=1):
        self.now, self.calls, self.durations, self.step = 0, 0, list(durations), step

    def clock(self):
        self.now += self.step
        return self.now

    def work(self, calls):
        for _ in range(calls):
            self.now += self.durations[min(self.calls, len(self.durations) - 1)]
            self.calls += 1


def noisy(level, spread, n, seed=0):
    return (level * np.exp(np.random.default_rng(seed).normal(0, spread, n))).astype(int).tolist()


def test_steady_work_gives_its_own_duration():
    machine = Machine([1_000_000])
    timing = measure(machine.work, rules(0.1), 0.1, clock=machine.clock)
    assert timing.calls == 1
    assert statistics.median(timing.spans) == pytest.approx(1_000_000, rel=1e-3)
    assert timing.stop == "precision"
    assert timing.warmup_settled


def test_warmup_outlasts_a_slow_start():
    machine = Machine([9_000_000] * 15 + [1_000_000])
    timing = measure(machine.work, rules(0.5), 5.0, clock=machine.clock)
    assert timing.warmup_calls >= 35, "two halves of ten agree only once both lie behind the slow start"
    assert max(timing.spans) < 1_100_000


def test_warmup_that_never_settles_is_bounded_and_says_so():
    machine = Machine([1_000_000 * (1 + place // 10) for place in range(2000)])
    timing = measure(machine.work, [Budget(1e6)], 0.5, clock=machine.clock)
    assert not timing.warmup_settled
    assert 0.4e9 < sum(machine.durations[: timing.warmup_calls]) < 0.7e9


@settings(max_examples=25, deadline=None)
@given(st.integers(200, 50_000))
def test_short_calls_are_gathered_into_samples_worth_timing(duration):
    machine = Machine([duration])
    timing = measure(machine.work, [Budget(1e6)], 0.001, clock=machine.clock)
    assert all(span >= LEAST_SPAN for span in timing.spans)
    assert statistics.median(timing.spans) / timing.calls == pytest.approx(duration, rel=0.01)


def test_a_coarse_clock_gets_longer_samples():
    machine = Machine([10_000], step=1000)  # the clock steps by a microsecond
    assert clock_resolution(machine.clock) == 1000
    timing = measure(machine.work, [Budget(1e8)], 0.001, clock=machine.clock)
    assert timing.calls * 10_000 >= 1_000_000


def test_calls_can_be_bounded():
    machine = Machine([100])
    assert measure(machine.work, [Budget(1e6)], 0.001, calls=(1, 1), clock=machine.clock).calls == 1
    machine = Machine([10_000_000])
    assert measure(machine.work, [Budget(1e9)], 0.001, calls=(8, 100), clock=machine.clock).calls == 8


def test_samples_in_which_the_clock_stood_still_are_counted_not_kept():
    machine = Machine([1_000_000])
    stuck = iter([False] * 30 + [True, False] * 1000)

    def work(calls):
        if next(stuck):
            machine.now -= machine.step  # as if no time had passed between the two readings
        else:
            machine.work(calls)

    timing = measure(work, [Budget(2e7)], 0.02, clock=machine.clock)
    assert timing.rejected > 0
    assert min(timing.spans) > 0


def test_a_clock_that_never_advances_is_an_error_not_a_hang():
    readings = iter(range(10_000_000))
    machine = Machine([1_000_000])
    count = 0

    def clock():
        nonlocal count
        count += 1
        return machine.now + (next(readings) if count < 500 else 0)

    def work(calls):
        if count < 490:
            machine.work(calls)

    with pytest.raises(RuntimeError, match="did not advance"):
        measure(work, [Budget(1e18)], 0.0, clock=clock)


def test_what_runs_before_a_sample_is_outside_the_clock():
    machine = Machine([1_000_000])

    def flush():
        machine.now += 50_000_000

    timing = measure(machine.work, [Budget(2e9)], 0.001, calls=(1, 1), before=flush, clock=machine.clock)
    assert max(timing.spans) < 1_001_000


def test_precision_stops_soon_when_quiet_and_not_when_noisy():
    quiet = noisy(1_000_000, 0.005, 200)
    loud = noisy(1_000_000, 0.3, 200)
    assert Precision().met(quiet[:30], 0)
    assert not Precision().met(loud, 0)
    assert not Precision().met([1.0] * 9, 0), "nine samples can't bracket their median"


def test_precision_interval_covers_the_median_as_often_as_it_says():
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(400):
        samples = rng.lognormal(0, 0.05, 40).tolist()
        ordered = sorted(samples)
        rule = Precision(relative=1.0)
        assert rule.met(samples, 0)
        reach = 0.98 * 40**0.5
        missed += not ordered[int(20 - reach)] <= 1.0 <= ordered[int(20 + reach) + 1]
    assert missed / 400 < 0.08


def test_noise_rule_waits_for_half_the_budget_and_for_a_settled_spread():
    samples = noisy(1_000_000, 0.2, 400)
    rule = StableNoise(after=5e8)
    early = [rule.met(samples[:n], elapsed=1e8) for n in range(50, 400, 10)]
    assert not any(early)
    rule = StableNoise(after=0)
    assert any(rule.met(samples[:n], elapsed=1e9) for n in range(50, 400, 10))
    growing = StableNoise(after=0)
    spreads = [noisy(1_000_000, 0.02 * (1 + k), 100, seed=k) for k in range(10)]
    assert not any(growing.met(samples, 1e9) for samples in spreads), "a spread that keeps growing has not settled"


def test_budget_takes_a_least_number_of_samples_whatever_they_cost():
    machine = Machine([10_000_000_000])
    timing = measure(machine.work, rules(0.1), 0.1, clock=machine.clock)
    assert len(timing.spans) == 5
    assert timing.stop == "budget"


def test_every_run_names_the_rule_that_ended_it():
    for spread, expected in [(0.002, {"precision"}), (0.5, {"noise", "budget"})]:
        machine = Machine(noisy(1_000_000, spread, 5000))
        assert measure(machine.work, rules(0.5), 0.1, clock=machine.clock).stop in expected


def test_samples_across_a_sleep_are_left_out_and_counted():
    """A machine that falls asleep in every seventh call for an hour, which its clock counts as time."""
    hour = 3_600_000_000_000
    machine = Machine([hour + 1_000_000 if call % 7 == 6 else 1_000_000 for call in range(5000)])

    def asleep():
        return hour * (machine.calls // 7)

    timing = measure(machine.work, [Budget(1e3, least=50)], 0.001, clock=machine.clock, asleep=asleep)
    assert max(timing.spans) < 1_100_000
    assert timing.slept == pytest.approx(len(timing.spans) / 6, abs=2)


def test_the_jitter_of_reading_two_clocks_is_no_sleep():
    machine = Machine([1_000_000])
    timing = measure(machine.work, rules(0.1), 0.1, clock=machine.clock, asleep=lambda: 5_000 * (machine.calls % 3))
    assert timing.slept == 0
