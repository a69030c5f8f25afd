"""What of a run is done: each record kept durably before the next cell begins, and what no further launch would tell more about."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from metalbench.harness.host import boot_id
from metalbench.harness.plan import Capabilities, Plan
from metalbench.results.record import TIMED, Cell, Measurement, Record
from metalbench.results.store import Store


class Ledger:
    """The records of one run; ``on_record`` hears of each that is kept. What an earlier attempt at the run kept counts too."""

    def __init__(self, store: Store, run_id: str, plan: Plan, capabilities: Capabilities, on_record: Callable[[Record], None]) -> None:
        self._store, self._run_id, self._plan = store, run_id, plan
        self._capabilities, self._on_record = capabilities, on_record
        self._done: set[tuple[str, int]] = set()
        self._settled: set[str] = set()
        for record in store.records(run_id):
            self._note(record)
        self._quarantine()

    def is_done(self, cell: Cell, launch: int) -> bool:
        return cell.key() in self._settled or (cell.key(), launch) in self._done

    def keep(self, cell: Cell, launch: int, measurement: Measurement) -> None:
        offer = self._capabilities[cell.column].offers.get(cell.workload)
        own_choice = offer is None or offer.default == cell.variant
        measurement = msgspec.structs.replace(measurement, default_variant=own_choice)
        record = Record(cell=cell, launch=launch, started=time.time(), measurement=measurement)
        self._store.add(self._run_id, record)
        self._note(record)
        self._on_record(record)

    def mark(self, cell: Cell, launch: int) -> None:
        """Say that the cell is in work now, should the machine go down with it."""
        self._store.mark(self._run_id, cell.key(), launch, boot_id())

    def _note(self, record: Record) -> None:
        self._done.add((record.cell.key(), record.launch))
        if record.measurement.status not in TIMED:
            self._settled.add(record.cell.key())

    def _quarantine(self) -> None:
        """A cell that was in work when the machine itself went down is not tried again."""
        mark = self._store.marked(self._run_id)
        if mark is None:
            return
        cell = next((cell for cell in self._plan.cells if cell.key() == mark.cell), None)
        if cell is not None and mark.boot_id != boot_id():
            reason = "quarantined: it was in work when the machine went down"
            self.keep(cell, mark.launch, Measurement(status="crashed", reason=reason))
        self._store.clear_mark(self._run_id)
