"""Warm-up, calibration, sampling: turns a function that does n calls of the work into raw samples.

The clock is injected, so that what is claimed here can be tested without one. All times are nanoseconds of a monotonic clock.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from metalbench.harness.stopping import Rule
from metalbench.harness.wakefulness import LEAST_SLEEP

Clock = Callable[[], int]
Work = Callable[[int], object]  #: does n calls, and returns when the last is truly finished

LEAST_SPAN = 200_000  #: ns; a shorter sample would be made of timer and loop overhead
RESOLUTIONS = 1000  #: a sample spans at least this many steps of the clock
WARMUP_HALF = 10  #: samples in each of the two halves that must agree
WARMUP_AGREEMENT = 0.03
LEAST_WARMUP = 50_000_000  #: ns; a device's clock takes its time to rise


@dataclass
class Timing:
    """Raw nanoseconds, each over ``calls`` calls.

    Samples that are left out are counted: ``rejected`` where the clock did not advance, ``slept`` where the machine was asleep.
    """

    calls: int = 1
    spans: list[int] = field(default_factory=list)
    rejected: int = 0
    slept: int = 0
    warmup_calls: int = 0
    warmup_settled: bool = False
    stop: str = ""


def clock_resolution(clock: Clock = time.perf_counter_ns, looks: int = 200) -> int:
    """The smallest step by which the clock was seen to advance, in ns."""
    smallest = None
    for _ in range(looks):
        start = now = clock()
        while now == start:
            now = clock()
        smallest = now - start if smallest is None else min(smallest, now - start)
    return smallest or 1


def measure(
    work: Work,
    rules: Sequence[Rule],
    warmup: float,
    *,
    calls: tuple[int, int] = (1, sys.maxsize),
    least_span: int = LEAST_SPAN,
    before: Callable[[], object] | None = None,
    clock: Clock = time.perf_counter_ns,
    asleep: Clock = lambda: 0,
) -> Timing:
    """Warm ``work`` up, choose the calls a sample, and sample until the first rule says stop: a ``Sampler``'s life."""
    sampler = Sampler(work, before=before, clock=clock, asleep=asleep)
    sampler.warm_up(warmup, calls=calls, least_span=least_span)
    sampler.sample(rules)
    return sampler.timing


class Sampler:
    """Takes samples of ``work`` and keeps them in ``timing``.

    ``before`` runs before each sample, outside the clock; ``asleep`` says how many nanoseconds the machine has slept so far. The garbage
    collector rests meanwhile: its pauses are the host's, not the framework's.
    """

    def __init__(
        self,
        work: Work,
        *,
        before: Callable[[], object] | None = None,
        clock: Clock = time.perf_counter_ns,
        asleep: Clock = lambda: 0,
    ) -> None:
        self._span, self._clock, self._asleep = _sampler(work, before, clock), clock, asleep
        self.timing = Timing()

    def warm_up(self, seconds: float, *, calls: tuple[int, int] = (1, sys.maxsize), least_span: int = LEAST_SPAN) -> None:
        """For at most ``seconds``; then choose as many calls a sample as make ``least_span`` nanoseconds, within the bounds ``calls``."""
        self.timing.calls = calls[0]
        with _collector_off():
            per_call = _warm_up(self._span, self.timing, seconds * 1e9, self._clock)
        least = 1.25 * max(least_span, RESOLUTIONS * clock_resolution(self._clock))  # warm-up overestimates a call a little
        self.timing.calls = min(max(math.ceil(least / per_call), calls[0]), calls[1])

    def sample(self, rules: Sequence[Rule]) -> None:
        """Until the first rule is met by the samples of this time."""
        with _collector_off():
            _sample(self._span, self.timing, rules, self._clock, self._asleep)


def _sampler(work: Work, before: Callable[[], object] | None, clock: Clock) -> Callable[[int], int]:
    """A function that does so many calls and gives the nanoseconds they took."""

    def sample(calls: int) -> int:
        if before is not None:
            before()
        start = clock()
        work(calls)
        return clock() - start

    return sample


def _warm_up(sample: Callable[[int], int], timing: Timing, bound: float, clock: Clock) -> float:
    """Run until the medians of two consecutive halves agree, or ``bound`` nanoseconds passed; the last estimate of ns per call."""
    calls = timing.calls
    spans: list[float] = []
    start = clock()
    while True:
        span = sample(calls)
        timing.warmup_calls += calls
        spans.append(max(span, 1) / calls)
        if len(spans) >= 2 * WARMUP_HALF and len(spans) % WARMUP_HALF == 0:
            before, after = statistics.median(spans[-2 * WARMUP_HALF : -WARMUP_HALF]), statistics.median(spans[-WARMUP_HALF:])
            if abs(after - before) <= WARMUP_AGREEMENT * before and clock() - start >= min(LEAST_WARMUP, bound):
                timing.warmup_settled = True
                break
        if clock() - start >= bound:
            break
    return statistics.median(spans[-WARMUP_HALF:])


def _sample(sample: Callable[[int], int], timing: Timing, rules: Sequence[Rule], clock: Clock, asleep: Clock) -> None:
    """Take samples until a rule is met; looks get rarer as samples get more, so that asking costs little."""
    samples: list[float] = []
    timing.stop = ""
    next_look = 1
    start, before = clock(), asleep()
    while not timing.stop:
        span = sample(timing.calls)
        after = asleep()
        slept, before = after - before > LEAST_SLEEP, after
        if slept:
            timing.slept += 1
            continue
        if span <= 0:
            timing.rejected += 1
            if timing.rejected > 1000:
                raise RuntimeError("the clock did not advance over a thousand samples")
            continue
        timing.spans.append(span)
        samples.append(span / timing.calls)
        if len(samples) >= next_look:
            timing.stop = next((rule.name for rule in rules if rule.met(samples, clock() - start)), "")
            next_look = len(samples) + max(1, len(samples) // 8)


@contextmanager
def _collector_off() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
