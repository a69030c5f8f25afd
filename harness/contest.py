"""An A/B comparison on one machine: pairs are measured until every cell has a verdict or the pairs are used up."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from metalbench.harness.catalog import Catalog
from metalbench.harness.ledger import Ledger
from metalbench.harness.pairing import Pairing, Side
from metalbench.harness.plan import Capabilities, Plan
from metalbench.harness.scheduler import Listener
from metalbench.harness.station import Station, free_memory
from metalbench.results.comparison import Comparison, compare
from metalbench.results.record import Run
from metalbench.results.sequential import Look, looks
from metalbench.results.store import Store


class Entrant(NamedTuple):
    """One side: its run in the store, what is measured, and who can. Cells at one place of both plans belong together."""

    run: Run
    plan: Plan
    catalog: Catalog
    capabilities: Capabilities


class Contest:
    """``pairs``: at most so many. ``memory_limit`` of both workers together in bytes, None for what is free now."""

    def __init__(
        self,
        entrants: tuple[Entrant, Entrant],
        store: Store,
        listener: Listener,
        *,
        pairs: int,
        threshold: float,
        memory_limit: int | None = None,
    ) -> None:
        self._entrants, self._store, self._listener = entrants, store, listener
        self._pairs, self._threshold = pairs, threshold
        self._memory_limit = (memory_limit or free_memory()) // 2  # two workers are alive at a time
        self._seed = entrants[0].plan.options.seed

    def run(self, on_look: Callable[[Look, Comparison], None]) -> Comparison:
        """Measure. ``on_look`` hears of each look and what is compared so far.

        KeyboardInterrupt passes through; what is finished stays in the store.
        """
        cells = self._entrants[0].plan.cells
        waiting, measured = list(range(len(cells))), 0
        with tempfile.TemporaryDirectory(prefix="metalbench-") as folder:
            pairing = Pairing((self._side(0, Path(folder)), self._side(1, Path(folder))), self._listener, self._seed)
            pairing.rule_out()
            for look in looks(self._pairs):
                for pair in range(measured, look.pairs):
                    pairing.measure(pair, waiting)
                measured = look.pairs
                found = self._compared()
                on_look(look, found)
                unsure = {change.base.cell.key() for change in found.changes if change.time and change.time.verdict == "unsure"}
                waiting = [place for place in waiting if cells[place].key() in unsure]
                if not waiting:
                    break
        return self._compared()

    def _compared(self) -> Comparison:
        """From what is in the store, so that what is stopped by and what is shown are the same."""
        base, candidate = ((entrant.run, self._store.records(entrant.run.id)) for entrant in self._entrants)
        return compare(base, candidate, threshold=self._threshold)

    def _side(self, number: int, folder: Path) -> Side:
        run, plan, catalog, capabilities = self._entrants[number]
        station = Station(plan.options, catalog, capabilities, folder, self._listener.stage, self._memory_limit)
        columns = {column.key: column for column in plan.options.columns}
        return Side(columns, plan.cells, station, Ledger(self._store, run.id, plan, capabilities, self._listener.finished))
