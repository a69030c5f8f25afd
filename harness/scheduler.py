"""Cells → workers → store: one backend's block at a time, each record durable before the next cell begins."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Protocol

import filelock

from metalbench.harness.catalog import Catalog
from metalbench.harness.environments import Column, cache_folder
from metalbench.harness.executor import Worker
from metalbench.harness.inputs import trim
from metalbench.harness.ledger import Ledger
from metalbench.harness.plan import Block, Capabilities, Plan
from metalbench.harness.station import Station
from metalbench.results.record import Cell, Record
from metalbench.results.store import Store

CACHE_LIMIT = 8 << 30  #: bytes of inputs and references kept between runs


class Listener(Protocol):
    """Who wants to know how the run is going."""

    def preparing(self, cell: Cell) -> None: ...
    def opening(self, column: Column) -> None: ...
    def started(self, cell: Cell, launch: int) -> None: ...
    def stage(self, name: str) -> None: ...
    def finished(self, record: Record) -> None: ...


class Scheduler:
    """Measures at ``station`` what of a plan is not in the store yet."""

    def __init__(
        self,
        *,
        plan: Plan,
        run_id: str,
        store: Store,
        catalog: Catalog,
        capabilities: Capabilities,
        station: Station,
        listener: Listener,
    ) -> None:
        self._plan, self._catalog, self._station, self._listener = plan, catalog, station, listener
        self._ledger = Ledger(store, run_id, plan, capabilities, listener.finished)

    def run(self) -> None:
        """Measure everything that is left. KeyboardInterrupt passes through; what is finished stays."""
        for cell in self._plan.cells:
            if not self._ledger.is_done(cell, 0) and (ruled_out := self._station.ruled_out(cell)) is not None:
                self._ledger.keep(cell, 0, ruled_out)
        for block in self._plan.blocks:
            self._run_block(block)
        trim(cache_folder() / "inputs", CACHE_LIMIT)

    def _run_block(self, block: Block) -> None:
        """Measure a block's cells, in a fresh worker again whenever one did not survive a cell."""
        column = self._plan.options.columns[block.column]
        while waiting := [cell for cell in (self._plan.cells[place] for place in block.cells) if self._waits(cell, block.launch)]:
            self._listener.opening(column)
            if (absence := self._station.absence(column)) is not None:
                for cell in waiting:
                    self._ledger.keep(cell, block.launch, absence)
                return
            with self._station.worker(column) as worker:
                refusal = self._station.refusal(worker, column)
                for cell in waiting:
                    if refusal is not None:
                        self._ledger.keep(cell, block.launch, refusal)
                    elif not self._run_cell(worker, cell, block.launch):
                        break

    def _waits(self, cell: Cell, launch: int) -> bool:
        """Whether the cell is still to be measured, and has inputs and a reference now."""
        if self._ledger.is_done(cell, launch):
            return False
        self._listener.preparing(cell)
        if (failure := self._station.unprepared(cell)) is not None:
            self._ledger.keep(cell, launch, failure)
        return failure is None

    def _run_cell(self, worker: Worker, cell: Cell, launch: int) -> bool:
        """Measure one cell and keep the record; whether the worker survived it."""
        self._ledger.mark(cell, launch)
        self._listener.started(cell, launch)
        matters = self._plan.memory_apart(cell) and self._catalog.workload(cell.workload).memory_matters
        fresh = matters and not self._catalog.device_kind(cell.backend).resets_peak
        first = launch == 0  # memory in a fresh process and energy hardly vary, and take their time
        measurement, alive = self._station.measure(worker, cell, memory="none" if fresh else "shared", energy=first)
        if fresh and first:
            measurement = self._station.with_fresh_memory(cell, measurement)
        self._ledger.keep(cell, launch, measurement)
        return alive


def measurement_lock() -> filelock.BaseFileLock:
    """Held while a run measures: two at once would time each other. One for all users of the machine, whatever their TMPDIR."""
    folder = Path("/tmp") if os.name == "posix" else Path(tempfile.gettempdir())  # noqa: S108 - it is what all users share
    return filelock.FileLock(folder / "metalbench.lock", mode=0o666)
