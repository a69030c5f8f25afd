"""Where cells are measured: workers for a plan's columns, jobs for its cells, and an answer for whatever becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil

from metalbench.harness.catalog import Catalog
from metalbench.harness.conditions import conditions
from metalbench.harness.environments import Column, cache_folder
from metalbench.harness.executor import SELFCHECK_TIMEOUT, Ended, Worker
from metalbench.harness.inputs import prepare
from metalbench.harness.plan import Capabilities, Options
from metalbench.harness.protocol import Job, Measure, Measured, MemoryPass, Opened, Ready, Refused, SelfCheck, SelfChecked
from metalbench.harness.witness import Witness
from metalbench.results.record import TIMED, Cell, Measurement, Memory
from metalbench.workloads.base import Case

MEMORY_SHARE = 0.9  #: of what is free at the start may be taken by a worker


def free_memory() -> int:
    """Bytes that workers may take together."""
    return int(psutil.virtual_memory().available * MEMORY_SHARE)


class Station:
    """Measures cells as ``options`` say, in workers whose files are in ``folder``.

    ``on_stage`` hears what a worker is about to do. ``memory_limit`` in bytes, None for what is free now.
    """

    def __init__(
        self,
        options: Options,
        catalog: Catalog,
        capabilities: Capabilities,
        folder: Path,
        on_stage: Callable[[str], None],
        memory_limit: int | None = None,
    ) -> None:
        self._options, self._catalog, self._capabilities = options, catalog, capabilities
        self._folder, self._on_stage = folder, on_stage
        self._columns = {column.key: column for column in options.columns}
        self._memory_limit = memory_limit or free_memory()
        self._conditions: dict[str, str] = {}  #: the machine's state before the last worker was started
        self._checked: dict[tuple[str, str], str] = {}  #: column → why its self-check failed, empty if it passed

    @property
    def budget(self) -> float:
        """Seconds of sampling a launch."""
        return self._options.budget

    def ruled_out(self, cell: Cell) -> Measurement | None:
        """The status of a cell that needs no worker to be known; None for one that is to be measured."""
        capability = self._capabilities[cell.column]
        workload = self._catalog.workload(cell.workload)
        if capability.status != "ok":
            return Measurement(status=capability.status, reason=capability.why)
        if cell.workload not in capability.offers:
            reason = capability.absent.get(cell.workload, f"{cell.backend} has no implementation of {cell.workload}")
            return Measurement(status="unsupported", reason=reason, facts=capability.facts)
        try:
            need = workload.cost(self._case(cell), cell.variant).footprint
        except Exception as error:  # noqa: BLE001 - a plug-in's workload may raise anything; it costs its own cells
            return _unprepared(cell, error)
        own_memory = self._catalog.device_kind(cell.backend).accelerator == "cuda"  # of which it says itself when it is full
        if need > self._memory_limit and not own_memory:
            reason = f"would need about {need / 2**30:.1f} GiB, and {self._memory_limit / 2**30:.1f} GiB may be used"
            return Measurement(status="oom", reason=reason, facts=capability.facts)
        return None

    def unprepared(self, cell: Cell) -> Measurement | None:
        """Make the cell's inputs and reference; it has failed if its workload can't. OSError where there is no place to keep them."""
        try:
            self._data(cell)
        except OSError:  # nothing can be measured
            raise
        except Exception as error:  # noqa: BLE001 - as in ruled_out
            return _unprepared(cell, error)
        return None

    def absence(self, column: Column) -> Measurement | None:
        """Why the column can't be measured any more, though it was planned: an environment may go between launches, or before a resume."""
        capability = self._capabilities[column.key]
        if capability.status != "ok":
            return Measurement(status=capability.status, reason=capability.why)
        if not Path(column.environment.python).exists():
            return Measurement(status="unavailable", reason=f"{column.environment.name} is gone: {column.environment.python} is not there")
        return None

    def worker(self, column: Column) -> Worker:
        """A fresh process; open it by ``refusal``."""
        self._conditions = conditions()
        return self._worker(column)

    def refusal(self, worker: Worker, column: Column) -> Measurement | None:
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

    def measure(self, worker: Worker, cell: Cell, *, memory: MemoryPass, energy: bool = False) -> tuple[Measurement, bool]:
        """One launch of a cell, and whether the worker survived it."""
        answer, alive = self.ask(worker, self.job(cell, memory, energy=energy), worker.log_size())
        assert isinstance(answer, Measurement)
        return answer, alive

    def ask(self, worker: Worker, job: Job, log_start: int) -> tuple[Measurement | int, bool]:
        """A measurement, or the calls a sample of one that goes on; and whether the worker survived. Its log is from ``log_start`` on."""
        answer = worker.ask(job, self._options.timeout, self._on_stage)
        if isinstance(answer, Ready):
            return answer.calls, True
        log = worker.log_since(log_start)
        if isinstance(answer, Measured):
            return msgspec.structs.replace(self._read(answer.measurement, log), log=log, conditions=self._conditions), True
        assert isinstance(answer, Ended | Refused)
        return Measurement(status=answer.status, reason=answer.reason, log=log), False

    def job(self, cell: Cell, memory: MemoryPass, *, energy: bool = False, calls: int = 0) -> Measure:
        """What a worker is asked to do for a launch of the cell. ``calls`` a sample, 0 for the worker's own choice."""
        return Measure(
            workload=cell.workload,
            case=cell.case,
            variant=cell.variant,
            data=str(self._data(cell)),
            throughput=self._options.throughput,
            cold=self._options.cold,
            budget=self._options.budget,
            memory=memory,
            energy=energy,
            calls=calls,
            kernel=next((own for own in self._options.kernels if (own.workload, own.variant) == (cell.workload, cell.variant)), None),
        )

    def with_fresh_memory(self, cell: Cell, measurement: Measurement) -> Measurement:
        """With the cell's peaks in a process that does nothing else."""
        if measurement.status not in TIMED:
            return measurement
        self._on_stage("memory, in a fresh process")
        with self._worker(self._columns[cell.column]) as worker:
            answer: Any = worker.open()
            if isinstance(answer, Opened):
                answer = worker.ask(self.job(cell, "only"), self._options.timeout)
        if isinstance(answer, Measured):
            found = answer.measurement
            memory = found.memory or Memory(device_source=found.reason, process_source=found.reason)
        else:
            memory = Memory(device_source=answer.reason, process_source=answer.reason)
        return msgspec.structs.replace(measurement, memory=memory)

    def _worker(self, column: Column) -> Worker:
        framework, kind = self._catalog.backend(column.backend)
        plugins = self._options.plugins
        return Worker(framework, kind, column.environment, self._folder, plugins=plugins, memory_limit=self._memory_limit)

    def _case(self, cell: Cell) -> Case:
        case: Case = msgspec.convert(cell.case, self._catalog.workload(cell.workload).case_type)
        return case

    def _read(self, measurement: Measurement, log: str) -> Measurement:
        """What a framework printed may say what its warnings did not: those of threads without Python never become Python's."""
        if measurement.status != "ok":
            return measurement
        witness = Witness(self._catalog.frameworks.values())
        for line in log.splitlines():
            witness.read(line)
        status, reason = witness.verdict()
        return msgspec.structs.replace(measurement, status=status, reason=reason)

    def _data(self, cell: Cell) -> Path:
        """The folder with the cell's inputs and reference, made at first need."""
        workload, source = self._catalog.workload(cell.workload), self._catalog.workload_files[cell.workload]
        return prepare(workload, self._case(cell), self._options.data_seed, source, cache_folder() / "inputs")


def _unprepared(cell: Cell, error: Exception) -> Measurement:
    return Measurement(status="failed", reason=f"{cell.workload} can't prepare this case: {type(error).__name__}: {error}")
