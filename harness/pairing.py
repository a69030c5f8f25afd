"""Two ways of doing the same work, measured side by side: what changes on the machine changes for both.

A pair is a fresh worker for each side. Each cell is measured four times in it, base, candidate, candidate, base, or the other way
round, so that whatever drifts evenly adds as much to one side as to the other; the two halves of a side make one launch.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import msgspec

from metalbench.harness.environments import Column
from metalbench.harness.executor import Worker
from metalbench.harness.ledger import Ledger
from metalbench.harness.scheduler import Listener
from metalbench.harness.station import Station
from metalbench.results.record import GRAVITY, TIMED, Cell, Measurement

ORDERS = ((0, 1, 1, 0), (1, 0, 0, 1))


class Side(NamedTuple):
    """One side's columns and cells, and where they are measured and kept. What has one place on both sides belongs together."""

    columns: Sequence[Column]
    cells: Sequence[Cell]
    station: Station
    ledger: Ledger


class Pairing:
    """Measures the same cells on two sides, in an order drawn from ``seed``."""

    def __init__(self, sides: tuple[Side, Side], listener: Listener, seed: int) -> None:
        self._sides, self._listener = sides, listener
        self._rng = random.Random(seed)  # noqa: S311 - an order that can be repeated, not a secret

    def rule_out(self) -> None:
        """Give cells their status that need no worker to have one, and make the inputs and references of the others."""
        for side in self._sides:
            for cell in side.cells:
                self._listener.preparing(cell)
                if (status := side.station.ruled_out(cell) or side.station.unprepared(cell)) is not None:
                    side.ledger.keep(cell, 0, status)

    def measure(self, pair: int, places: Sequence[int]) -> None:
        """One more launch of the cells at these places on both sides, each cell's records kept before the next begins."""
        numbers = list(range(len(self._sides[0].columns)))
        self._rng.shuffle(numbers)
        for number in numbers:
            column = self._sides[0].columns[number].key
            own = [place for place in places if self._sides[0].cells[place].column == column]
            self._rng.shuffle(own)
            while waiting := [place for place in own if self._waits(place, pair)]:
                self._run(number, waiting, pair)

    def _waits(self, place: int, pair: int) -> bool:
        """A cell that has come to nothing on one side has no ratio; the other side's status is found out once all the same."""
        done = [side.ledger.is_done(side.cells[place], pair) for side in self._sides]
        return not (all(done) if pair == 0 else any(done))

    def _run(self, number: int, places: Sequence[int], pair: int) -> None:
        """Measure cells of one column in a fresh pair of workers, until one does not survive."""
        with ExitStack() as stack:
            workers = [self._worker(side, number, places, pair, stack) for side in self._sides]
            for place in places:
                if not self._run_cell(workers, place, pair):
                    return

    def _worker(self, side: Side, number: int, places: Sequence[int], pair: int, stack: ExitStack) -> Worker | None:
        """An open worker; None where the cells got a status instead, or have one."""
        cells = [cell for place in places if not side.ledger.is_done(cell := side.cells[place], pair)]
        if not cells:
            return None
        column = side.columns[number]
        self._listener.opening(column)
        refusal = side.station.absence(column)
        if refusal is None:
            worker = stack.enter_context(side.station.worker(column))
            refusal = side.station.refusal(worker, column)
            if refusal is None:
                return worker
        for cell in cells:
            side.ledger.keep(cell, pair, refusal)
        return None

    def _run_cell(self, workers: Sequence[Worker | None], place: int, pair: int) -> bool:
        """Measure a cell on both sides and keep what was found; whether the workers survived it."""
        halves: tuple[list[Measurement], list[Measurement]] = ([], [])
        calls, alive = None, True
        for turn in self._rng.choice(ORDERS):
            side, worker, found = self._sides[turn], workers[turn], halves[turn]
            cell = side.cells[place]
            if not alive or worker is None or side.ledger.is_done(cell, pair) or (found and found[0].status not in TIMED):
                continue
            side.ledger.mark(cell, pair)
            self._listener.started(cell, pair)
            measurement, alive = side.station.measure(worker, cell, memory="none" if found else "shared", calls=calls)
            found.append(measurement)
            if measurement.spans_ns:
                calls = measurement.calls_per_sample  # of both sides and halves: the samples are alike, and a side's can be put together
        for side, found in zip(self._sides, halves, strict=True):
            if found:
                side.ledger.keep(side.cells[place], pair, _joined(found))
        return alive


def _joined(halves: Sequence[Measurement]) -> Measurement:
    """The two halves of a side as one launch: all samples, and the worse status."""
    first, last = halves[0], halves[-1]
    if first is last or last.status not in TIMED:
        return last
    worse = min(halves, key=lambda found: GRAVITY.index(found.status))
    errors = [found.max_error for found in halves if found.max_error is not None]
    return msgspec.structs.replace(
        first,
        status=worse.status,
        reason=worse.reason,
        spans_ns=first.spans_ns + last.spans_ns,
        device_spans_ns=first.device_spans_ns + last.device_spans_ns,
        rejected=first.rejected + last.rejected,
        slept=first.slept + last.slept,
        warmup_calls=first.warmup_calls + last.warmup_calls,
        max_error=max(errors, default=None),
        sentinel_after_ns=last.sentinel_after_ns,
        log=first.log + last.log,
    )
