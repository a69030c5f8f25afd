"""Two ways of doing the same work, measured side by side: what changes on the machine changes for both.

A pair is a fresh worker for each side. In it a cell is built on both sides, and then they take their samples in turn, some milliseconds
each: base, candidate, candidate, base, and so on, so that whatever drifts or disturbs adds as much to one side as to the other.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from metalbench.harness.environments import Column
from metalbench.harness.executor import Worker
from metalbench.harness.ledger import Ledger
from metalbench.harness.protocol import Begin, Finish, Job, Take
from metalbench.harness.scheduler import Listener
from metalbench.harness.station import Station
from metalbench.results.record import Cell, Measurement

ORDERS = ((0, 1, 1, 0), (1, 0, 0, 1))
ROUNDS = 16  #: of four turns each, in which a side uses its budget up
LEAST_ROUNDS = 4  #: where calls are so long that a turn takes more than its share


class Side(NamedTuple):
    """One side's columns by their keys, its cells, and where they are measured and kept.

    Cells at one place on both sides belong together.
    """

    columns: Mapping[tuple[str, str], Column]
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
        columns = list(dict.fromkeys((self._sides[0].cells[place].column, self._sides[1].cells[place].column) for place in places))
        self._rng.shuffle(columns)
        for both in columns:
            own = [place for place in places if both == (self._sides[0].cells[place].column, self._sides[1].cells[place].column)]
            self._rng.shuffle(own)
            while waiting := [place for place in own if self._waits(place, pair)]:
                self._run(waiting, pair)

    def _waits(self, place: int, pair: int) -> bool:
        """A cell that has come to nothing on one side has no ratio; the other side's status is found out once all the same."""
        done = [side.ledger.is_done(side.cells[place], pair) for side in self._sides]
        return not (all(done) if pair == 0 else any(done))

    def _run(self, places: Sequence[int], pair: int) -> None:
        """Measure cells of one column on either side in a fresh pair of workers, until one does not survive."""
        with ExitStack() as stack:
            workers = [self._worker(side, places, pair, stack) for side in self._sides]
            for place in places:
                if not self._run_cell(workers, place, pair):
                    return

    def _worker(self, side: Side, places: Sequence[int], pair: int, stack: ExitStack) -> Worker | None:
        """An open worker; None where the cells got a status instead, or have one."""
        cells = [cell for place in places if not side.ledger.is_done(cell := side.cells[place], pair)]
        if not cells:
            return None
        column = side.columns[cells[0].column]
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
        order = self._rng.choice(ORDERS)
        turns: dict[int, _Turns] = {}
        for number in order[:2]:
            side, worker, cell = self._sides[number], workers[number], self._sides[number].cells[place]
            if worker is not None and not side.ledger.is_done(cell, pair):
                side.ledger.mark(cell, pair)
                self._listener.started(cell, pair)
                calls = next((other.calls for other in turns.values()), 0)  # the same on both sides, so that the samples are alike
                turns[number] = _Turns(side.station, worker, cell, calls)
        enough = time.monotonic() + 4 * self._sides[0].station.budget
        for done in range(ROUNDS):
            if done >= LEAST_ROUNDS and time.monotonic() > enough:
                break
            for number in order:
                if number in turns:
                    turns[number].take()
        for number, own in turns.items():
            self._sides[number].ledger.keep(self._sides[number].cells[place], pair, own.finish())
        return all(own.alive for own in turns.values())


class _Turns:
    """A cell on a worker that samples it bit by bit; it may come to its end at any step."""

    def __init__(self, station: Station, worker: Worker, cell: Cell, calls: int) -> None:
        self._station, self._worker, self._log_start = station, worker, worker.log_size()
        self.calls, self.alive = 0, True
        self._found: Measurement | None = None
        self._ask(Begin(station.job(cell, "shared", calls=calls)))

    def take(self) -> None:
        self._ask(Take(self._station.budget / (2 * ROUNDS)))

    def finish(self) -> Measurement:
        self._ask(Finish())
        assert self._found is not None
        return self._found

    def _ask(self, job: Job) -> None:
        if self._found is None:
            answer, self.alive = self._station.ask(self._worker, job, self._log_start)
            if isinstance(answer, Measurement):
                self._found = answer
            else:
                self.calls = answer
