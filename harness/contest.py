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
from metalbench.results.evidence import Pair, comparable
from metalbench.results.record import Record, Run
from metalbench.results.sequential import Look, decide, looks
from metalbench.results.store import Store
from metalbench.results.summary import Summary
from metalbench.results.verdicts import Judgement


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

    def run(self, on_look: Callable[[Look, dict[int, Judgement]], None]) -> Comparison:
        """Measure. ``on_look`` hears of each look and the verdicts so far, by place.

        KeyboardInterrupt passes through; what is finished stays in the store.
        """
        cells = len(self._entrants[0].plan.cells)
        waiting, measured = list(range(cells)), 0
        judged: dict[int, Judgement] = {}
        with tempfile.TemporaryDirectory(prefix="metalbench-") as folder:
            pairing = Pairing((self._side(0, Path(folder)), self._side(1, Path(folder))), self._listener, self._seed)
            pairing.rule_out()
            for look in looks(self._pairs):
                for pair in range(measured, look.pairs):
                    pairing.measure(pair, waiting)
                measured = look.pairs
                summaries = self._summaries()
                ranked = [place for place in waiting if comparable(summaries[place])]
                found = decide([summaries[place] for place in ranked], look, threshold=self._threshold, family=cells)
                judged |= dict(zip(ranked, found, strict=True))
                waiting = [place for place in ranked if judged[place].verdict == "unsure"]
                on_look(look, judged)
                if not waiting:
                    break
        base, candidate = ((entrant.run, self._store.records(entrant.run.id)) for entrant in self._entrants)
        return compare(base, candidate, threshold=self._threshold)

    def _side(self, number: int, folder: Path) -> Side:
        run, plan, catalog, capabilities = self._entrants[number]
        station = Station(plan.options, catalog, capabilities, folder, self._listener.stage, self._memory_limit)
        columns = {column.key: column for column in plan.options.columns}
        return Side(columns, plan.cells, station, Ledger(self._store, run.id, plan, capabilities, self._listener.finished))

    def _summaries(self) -> dict[int, Pair]:
        """Place → the cell on both sides, from what is in the store."""
        sides = []
        for entrant in self._entrants:
            records: dict[str, list[Record]] = {}
            for record in self._store.records(entrant.run.id):
                records.setdefault(record.cell.key(), []).append(record)
            sides.append([Summary(records[cell.key()]) for cell in entrant.plan.cells])
        return dict(enumerate(zip(*sides, strict=True)))
