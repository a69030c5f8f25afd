"""How a sample is taken, the *protocol*: what a call waits for, and what stands beside the work on the same device."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from metalbench.backends.base import Device, Outputs, StatefulStep, Step, Unsupported
from metalbench.harness.host import last_level_cache

Work = Callable[[int], Outputs]  #: does so many calls, returns the last one's outputs when all are finished

SENTINEL_SIZES = (256, 512, 1024, 2048, 4096)
SENTINEL_SPAN = 200_000  #: ns a product must take, so that it measures the device and not the dispatch
SENTINEL_CALLS = 7
EMPTY_CALLS = 101
ROTATED = 16  #: input sets that are made at most; each may have to be compiled


def latency(device: Device, step: Step) -> Work:
    """Wait after every call: what a user waits for one result."""

    def work(calls: int) -> Outputs:
        outputs: Outputs = {}
        for _ in range(calls):
            outputs = step()
            device.wait(outputs)
        return outputs

    return work


def throughput(device: Device, step: Step) -> Work:
    """Issue all calls, then wait once for all their outputs: what the device can do when it is kept busy.

    Where each call changes the state that the one before left, that one's outputs may be gone, and the last ones need them all.
    """

    def work(calls: int) -> Outputs:
        outputs = [step() for _ in range(calls)]
        waited = outputs[-1:] if isinstance(step, StatefulStep) else outputs
        device.wait({f"{name}/{call}": array for call, out in enumerate(waited) for name, array in out.items()})
        return outputs[-1]

    return work


def empty_call(device: Device) -> float:
    """Median ns of a call that has nothing to do: what the protocol itself costs."""
    done = {"out": device.put(np.zeros(1, np.float32))}
    work = latency(device, lambda: done)
    spans = []
    for _ in range(EMPTY_CALLS):
        begin = time.perf_counter_ns()
        work(1)
        spans.append(time.perf_counter_ns() - begin)
    return statistics.median(spans)


class Sentinel(NamedTuple):
    """A product of two square matrices of ``size``, and a function that times it, in ns."""

    size: int
    time: Callable[[], int]


def make_sentinel(device: Device) -> Sentinel:
    """A fixed small product; timed before and after a cell it tells whether the machine was the same machine.

    The best of its calls counts: what other programs take now and then only adds to the others, heat and a lower clock to all.
    """

    def timer(size: int) -> Sentinel:
        ones = device.put(np.ones((size, size), np.float32))
        work = latency(device, lambda: {"out": device.product(ones, ones)})

        def time_it() -> int:
            work(2)
            spans = []
            for _ in range(SENTINEL_CALLS):
                begin = time.perf_counter_ns()
                work(1)
                spans.append(time.perf_counter_ns() - begin)
            return min(spans)

        return Sentinel(size, time_it)

    sizes = iter(SENTINEL_SIZES)
    chosen = timer(next(sizes))
    while chosen.time() < SENTINEL_SPAN and (size := next(sizes, None)) is not None:
        chosen = timer(size)
    return chosen


def flush(device: Device) -> Callable[[], object]:
    """Reads twice the last-level cache through the device, so that nothing of the cell's inputs is left in it."""
    rows = 2 * last_level_cache() // (256 * 4)
    large, thin = device.put(np.ones((rows, 256), np.float32)), device.put(np.ones((256, 1), np.float32))
    return lambda: device.wait({"out": device.product(large, thin)})


def rotation(build: Callable[[], Step], size: int) -> Step:
    """A step over input sets that together exceed the last-level cache twice, each call on the next set. ``size``: bytes a call touches.

    Raises Unsupported where that would take more than ``ROTATED`` sets, and for steps with a state, which every call touches anyway.
    """
    sets = math.ceil(2 * last_level_cache() / max(size, 1)) + 1
    if sets > ROTATED:
        raise Unsupported(f"so little memory is touched that {sets} sets of inputs would be needed to leave the cache; use latency-cold")
    steps = [build() for _ in range(sets)]
    if isinstance(steps[0], StatefulStep):
        raise Unsupported("a step that changes its own state has no cold inputs to rotate; use latency-cold")
    turn = itertools.cycle(steps)

    def step() -> Outputs:
        return next(turn)()

    return step
