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
from metalbench.harness.plan import SUITES, Block, Capabilities, Plan
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
    """Measures what of a plan is not in the store yet. ``memory_limit`` in bytes, None for what is free now."""

    def __init__(
        self,
        *,
        plan: Plan,
        run_id: str,
        store: Store,
        catalog: Catalog,
        capabilities: Capabilities,
        listener: Listener,
        memory_limit: int | None = None,
    ) -> None:
        self._plan, self._catalog, self._capabilities = plan, catalog, capabilities
        self._ledger = Ledger(store, run_id, plan, capabilities, listener.finished)
        self._listener, self._memory_limit = listener, memory_limit

    def run(self) -> None:
        """Measure everything that is left. KeyboardInterrupt passes through; what is finished stays."""
        with tempfile.TemporaryDirectory(prefix="metalbench-") as folder:
            station = Station(self._plan.options, self._catalog, self._capabilities, Path(folder), self._listener.stage, self._memory_limit)
            for cell in self._plan.cells:
                if not self._ledger.is_done(cell, 0) and (ruled_out := station.ruled_out(cell)) is not None:
                    self._ledger.keep(cell, 0, ruled_out)
            for block in self._plan.blocks:
                self._run_block(block, station)
        trim(cache_folder() / "inputs", CACHE_LIMIT)

    def _run_block(self, block: Block, station: Station) -> None:
        """Measure a block's cells, in a fresh worker again whenever one did not survive a cell."""
        column = self._plan.options.columns[block.column]
        while waiting := [cell for cell in (self._plan.cells[place] for place in block.cells) if self._waits(cell, block.launch, station)]:
            self._listener.opening(column)
            if (absence := station.absence(column)) is not None:
                for cell in waiting:
                    self._ledger.keep(cell, block.launch, absence)
                return
            with station.worker(column) as worker:
                refusal = station.refusal(worker, column)
                for cell in waiting:
                    if refusal is not None:
                        self._ledger.keep(cell, block.launch, refusal)
                    elif not self._run_cell(station, worker, cell, block.launch):
                        break

    def _waits(self, cell: Cell, launch: int, station: Station) -> bool:
        """Whether the cell is still to be measured, and has inputs and a reference now."""
        if self._ledger.is_done(cell, launch):
            return False
        self._listener.preparing(cell)
        if (failure := station.unprepared(cell)) is not None:
            self._ledger.keep(cell, launch, failure)
        return failure is None

    def _run_cell(self, station: Station, worker: Worker, cell: Cell, launch: int) -> bool:
        """Measure one cell and keep the record; whether the worker survived it."""
        self._ledger.mark(cell, launch)
        self._listener.started(cell, launch)
        thorough = SUITES[self._plan.options.suite].every_variant  # quick shares the process, and its records say so
        matters = self._catalog.workload(cell.workload).memory_matters
        fresh = thorough and matters and not self._catalog.device_kind(cell.backend).resets_peak
        first = launch == 0  # memory in a fresh process and energy hardly vary, and take their time
        measurement, alive = station.measure(worker, cell, memory="none" if fresh else "shared", energy=first)
        if fresh and first:
            measurement = station.with_fresh_memory(cell, measurement)
        self._ledger.keep(cell, launch, measurement)
        return alive


def measurement_lock() -> filelock.BaseFileLock:
    """Held while a run measures: two at once would time each other. One for all users of the machine, whatever their TMPDIR."""
    folder = Path("/tmp") if os.name == "posix" else Path(tempfile.gettempdir())  # noqa: S108 - it is what all users share
    return filelock.FileLock(folder / "metalbench.lock", mode=0o666)
