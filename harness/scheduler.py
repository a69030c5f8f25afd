"""Cells → workers → store: one backend's block at a time, each record durable before the next cell begins."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Protocol

import filelock
import msgspec
import psutil

from metalbench.harness.catalog import Catalog
from metalbench.harness.conditions import conditions
from metalbench.harness.environments import Column, cache_folder
from metalbench.harness.executor import SELFCHECK_TIMEOUT, Ended, Worker
from metalbench.harness.inputs import prepare, trim
from metalbench.harness.ledger import Ledger
from metalbench.harness.plan import SUITES, Block, Capabilities, Plan
from metalbench.harness.protocol import Measure, Measured, MemoryPass, Opened, Refused, SelfCheck, SelfChecked
from metalbench.harness.witness import Witness
from metalbench.results.record import TIMED, Cell, Measurement, Memory, Record
from metalbench.results.store import Store
from metalbench.workloads.base import Case

CACHE_LIMIT = 8 << 30  #: bytes of inputs and references kept between runs
MEMORY_SHARE = 0.9  #: of what is free at the start may be taken by a worker


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
        self._plan, self._catalog = plan, catalog
        self._ledger = Ledger(store, run_id, plan, capabilities, listener.finished)
        self._capabilities, self._listener = capabilities, listener
        self._columns = {column.key: column for column in plan.options.columns}
        self._memory_limit = memory_limit or int(psutil.virtual_memory().available * MEMORY_SHARE)
        self._conditions: dict[str, str] = {}  #: the machine's state before the block in work
        self._checked: dict[tuple[str, str], str] = {}  #: column → why its self-check failed, empty if it passed

    def run(self) -> None:
        """Measure everything that is left. KeyboardInterrupt passes through; what is finished stays."""
        with tempfile.TemporaryDirectory(prefix="metalbench-") as folder:
            for place in range(len(self._plan.cells)):
                self._rule_out(place)
            for block in self._plan.blocks:
                self._run_block(block, Path(folder))
        trim(cache_folder() / "inputs", CACHE_LIMIT)

    def _rule_out(self, place: int) -> None:
        """Give a cell its status without a worker, where none is needed to know it."""
        cell = self._plan.cells[place]
        if self._ledger.is_done(cell, 0):
            return
        capability = self._capabilities[cell.column]
        workload = self._catalog.workload(cell.workload)
        if capability.status != "ok":
            self._ledger.keep(cell, 0, Measurement(status=capability.status, reason=capability.why))
            return
        if cell.workload not in capability.offers:
            reason = capability.absent.get(cell.workload, f"{cell.backend} has no implementation of {cell.workload}")
            self._ledger.keep(cell, 0, Measurement(status="unsupported", reason=reason, facts=capability.facts))
            return
        try:
            need = workload.cost(self._case(cell), cell.variant).footprint
        except Exception as error:  # noqa: BLE001 - a plug-in's workload may raise anything; it costs its own cells
            self._ledger.keep(cell, 0, _unprepared(cell, error))
            return
        own_memory = self._catalog.device_kind(cell.backend).accelerator == "cuda"  # of which it says itself when it is full
        if need > self._memory_limit and not own_memory:
            reason = f"would need about {need / 2**30:.1f} GiB, and {self._memory_limit / 2**30:.1f} GiB may be used"
            self._ledger.keep(cell, 0, Measurement(status="oom", reason=reason, facts=capability.facts))

    def _case(self, cell: Cell) -> Case:
        case: Case = msgspec.convert(cell.case, self._catalog.workload(cell.workload).case_type)
        return case

    def _run_block(self, block: Block, folder: Path) -> None:
        """Measure a block's cells, in a fresh worker again whenever one did not survive a cell."""
        waiting = [self._plan.cells[place] for place in block.cells]
        while waiting := [cell for cell in waiting if not self._ledger.is_done(cell, block.launch) and self._prepared(cell, block.launch)]:
            column = self._plan.options.columns[block.column]
            self._listener.opening(column)
            if (absence := self._absence(column)) is not None:
                for cell in waiting:
                    self._ledger.keep(cell, block.launch, absence)
                return
            self._conditions = conditions()
            with self._worker(column, folder) as worker:
                refusal = self._refusal(worker, column)
                for cell in waiting:
                    if refusal is not None:
                        self._ledger.keep(cell, block.launch, refusal)
                    elif self._run_cell(worker, cell, block.launch, folder) is None:
                        break

    def _absence(self, column: Column) -> Measurement | None:
        """Why the column can't be measured any more, though it was planned: an environment may go between launches, or before a resume."""
        capability = self._capabilities[column.key]
        if capability.status != "ok":
            return Measurement(status=capability.status, reason=capability.why)
        if not Path(column.environment.python).exists():
            return Measurement(status="unavailable", reason=f"{column.environment.name} is gone: {column.environment.python} is not there")
        return None

    def _prepared(self, cell: Cell, launch: int) -> bool:
        """Whether the cell has inputs and a reference now; it has failed if its workload can't make them."""
        self._listener.preparing(cell)
        try:
            self._data(cell)
        except OSError:  # no place to keep them: nothing can be measured
            raise
        except Exception as error:  # noqa: BLE001 - as in _rule_out
            self._ledger.keep(cell, launch, _unprepared(cell, error))
            return False
        return True

    def _worker(self, column: Column, folder: Path) -> Worker:
        framework, kind = self._catalog.backend(column.backend)
        plugins = self._plan.options.plugins
        return Worker(framework, kind, column.environment, folder, plugins=plugins, memory_limit=self._memory_limit)

    def _refusal(self, worker: Worker, column: Column) -> Measurement | None:
        """Open the device, and once a run see whether its clock can be believed; what all its cells get if not."""
        opened = worker.open()
        if not isinstance(opened, Opened):
            return Measurement(status=opened.status, reason=opened.reason, log=worker.log_since(0))
        if column.key not in self._checked:
            answer = worker.ask(SelfCheck(), SELFCHECK_TIMEOUT)
            ok = isinstance(answer, SelfChecked) and answer.ok
            self._checked[column.key] = "" if ok else f"refused by the self-check: {getattr(answer, 'reason', '')}"
        reason = self._checked[column.key]
        return Measurement(status="failed", reason=reason, facts=opened.facts) if reason else None

    def _run_cell(self, worker: Worker, cell: Cell, launch: int, folder: Path) -> Measurement | None:
        """Measure one cell and keep the record; None if the worker did not survive it."""
        self._ledger.mark(cell, launch)
        self._listener.started(cell, launch)
        thorough = SUITES[self._plan.options.suite].every_variant  # quick shares the process, and its records say so
        fresh = thorough and not self._catalog.device_kind(cell.backend).resets_peak
        start = worker.log_size()
        job = self._job(cell, "none" if fresh else "shared", energy=launch == 0)  # it hardly varies, and takes its time
        answer = worker.ask(job, self._plan.options.timeout, self._listener.stage)
        log = worker.log_since(start)
        if not isinstance(answer, Measured):
            assert isinstance(answer, Ended | Refused)
            self._ledger.keep(cell, launch, Measurement(status=answer.status, reason=answer.reason, log=log))
            return None
        measurement = msgspec.structs.replace(self._read(answer.measurement, log), log=log, conditions=self._conditions)
        if fresh and launch == 0 and measurement.status in TIMED:
            measurement = msgspec.structs.replace(measurement, memory=self._fresh_memory(cell, folder))
        self._ledger.keep(cell, launch, measurement)
        return measurement

    def _read(self, measurement: Measurement, log: str) -> Measurement:
        """What a framework printed may say what its warnings did not: those of threads without Python never become Python's."""
        if measurement.status != "ok":
            return measurement
        witness = Witness(self._catalog.frameworks.values())
        for line in log.splitlines():
            witness.read(line)
        status, reason = witness.verdict()
        return msgspec.structs.replace(measurement, status=status, reason=reason)

    def _fresh_memory(self, cell: Cell, folder: Path) -> Memory:
        """The cell's peaks in a process that does nothing else; once a run, since they hardly vary."""
        self._listener.stage("memory, in a fresh process")
        with self._worker(self._columns[cell.column], folder) as worker:
            answer: Any = worker.open()
            if isinstance(answer, Opened):
                answer = worker.ask(self._job(cell, "only"), self._plan.options.timeout)
        if isinstance(answer, Measured):
            found = answer.measurement
            return found.memory or Memory(device_source=found.reason, process_source=found.reason)
        return Memory(device_source=answer.reason, process_source=answer.reason)

    def _job(self, cell: Cell, memory: MemoryPass, *, energy: bool = False) -> Measure:
        options = self._plan.options
        return Measure(
            workload=cell.workload,
            case=cell.case,
            variant=cell.variant,
            data=str(self._data(cell)),
            throughput=options.throughput,
            cold=options.cold,
            budget=options.budget,
            memory=memory,
            energy=energy,
        )

    def _data(self, cell: Cell) -> Path:
        """The folder with the cell's inputs and reference, made at first need."""
        workload, source = self._catalog.workload(cell.workload), self._catalog.workload_files[cell.workload]
        return prepare(workload, self._case(cell), self._plan.options.data_seed, source, cache_folder() / "inputs")


def _unprepared(cell: Cell, error: Exception) -> Measurement:
    return Measurement(status="failed", reason=f"{cell.workload} can't prepare this case: {type(error).__name__}: {error}")


def measurement_lock() -> filelock.BaseFileLock:
    """Held while a run measures: two at once would time each other. One for all users of the machine, whatever their TMPDIR."""
    folder = Path("/tmp") if os.name == "posix" else Path(tempfile.gettempdir())  # noqa: S108 - it is what all users share
    return filelock.FileLock(folder / "metalbench.lock", mode=0o666)
