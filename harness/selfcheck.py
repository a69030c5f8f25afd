"""Does the clock see the work? A backend whose adapter stops the clock before the work is done must not be believed.

Two facts no implementation can fake: 2n products, each needing the one before, take twice as long as n; and a result that has been
waited for is no quicker to have than one that has been read on the host. The best of several
interleaved repetitions is compared, since other load only ever adds time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from metalbench.backends.base import Device
from metalbench.harness.protocol import SelfChecked

LEAST_PRODUCT = 2e-3  #: seconds one product must take, so that dispatch can't hide in it
LARGEST = 8192  #: rows; enough for milliseconds on any device of today
LINKS = 8  #: products in the shorter chain; few, so that a queue of limited depth can't hide a missing wait
REPETITIONS = 7
ATTEMPTS = 10
DOUBLING = (1.8, 2.2)
CLOSED = 0.9


def selfcheck(device: Device) -> SelfChecked:
    """Time chains of products on the device, waited for and read; try again where other load disturbed it."""
    chain = _chain(device)
    result = _compare(chain)
    for _ in range(ATTEMPTS - 1):  # afresh each time: one lucky short chain would spoil all that follow
        if result.ok:
            break
        result = _compare(chain)
    return result


def _compare(chain: Callable[[int, bool], float]) -> SelfChecked:
    best = dict.fromkeys(("n", "2n", "read"), float("inf"))
    for _ in range(REPETITIONS):
        best["n"] = min(best["n"], chain(LINKS, False))
        best["2n"] = min(best["2n"], chain(2 * LINKS, False))
        best["read"] = min(best["read"], chain(LINKS, True))
    doubling, closed = best["2n"] / best["n"], best["n"] / best["read"]
    low, high = DOUBLING
    if closed < CLOSED:
        reason = (
            f"{LINKS} chained products seem to take {closed:.2f} of the time it takes until their result can be read: the clock stops early"
        )
    elif not low <= doubling <= high:
        reason = f"twice the chained products take {doubling:.2f} times as long: the clock does not follow the work"
    else:
        reason = ""
    return SelfChecked(ok=not reason, doubling=doubling, closed=closed, reason=reason)


def _chain(device: Device) -> Callable[[int, bool], float]:
    """The chain over matrices so large that one product takes ``LEAST_PRODUCT``, warmed up."""
    size = 128
    while True:
        timed = _timer(device, size)
        timed(1, True)
        if min(timed(1, True) for _ in range(3)) >= LEAST_PRODUCT or size >= LARGEST:
            timed(2 * LINKS, True)
            return timed
        size *= 2


def _timer(device: Device, size: int) -> Callable[[int, bool], float]:
    """A function of (links, read) that gives the seconds of so many chained products, closed by reading or by waiting.

    The chain ends in a product with one column: a result so small that reading it takes no time of its own.
    """
    rng = np.random.default_rng(0)
    start = device.put(rng.standard_normal((size, size)).astype(np.float32))
    normal = rng.standard_normal((size, 1))
    mirror = np.eye(size) - 2 * normal @ normal.T / (normal**2).sum()  # Householder's: dense, quickly made, and keeps the chain's norm
    reflection = device.put(mirror.astype(np.float32))
    column = device.put(np.ones((size, 1), np.float32))

    def timed(links: int, read: bool) -> float:
        begin = time.perf_counter()
        out = start
        for _ in range(links):
            out = device.product(out, reflection)
        out = device.product(out, column)
        if read:
            device.get(out)
        else:
            device.wait({"out": out})
        return time.perf_counter() - begin

    return timed
