"""A machine of a fleet: what it can measure, and measuring it, by the same code as a run of its own.

What it measured is kept here too, in a file a run, until long after: a client or a scheduler that goes costs no finished record, and
an errand that is asked for again is answered by what is there.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from distributed import get_worker

from metalbench.harness import provisioning
from metalbench.harness.columns import Wanted, choose
from metalbench.harness.environments import Column, data_folder, slug
from metalbench.harness.errors import MetalbenchError
from metalbench.harness.fleet.messages import Errand, Event, Finished, Request, Result, Started, Survey, difference, plugin_marks
from metalbench.harness.host import host
from metalbench.harness.plan import Capabilities, Options, make_plan
from metalbench.harness.probing import Prober
from metalbench.harness.scheduler import Scheduler, measurement_lock
from metalbench.harness.station import Station
from metalbench.results.record import Cell, Record, Run
from metalbench.results.store import open_store

if TYPE_CHECKING:
    from metalbench.harness.catalog import Catalog
    from metalbench.harness.recipes import Recipes

EXTENSION = "metalbench"  #: the worker's name for its machine
KEPT = 30 * 86400  #: seconds that a run's records stay here


class AbandonedError(Exception):
    """Nobody waits for the errand any more."""


class Machine:
    """``usual``: the backends that are measured here unless others are asked for. ``memory_limit`` in bytes, None for what is free."""

    def __init__(self, catalog: Catalog, recipes: Recipes, plugins: list[str], usual: list[str], memory_limit: int | None) -> None:
        self._usual = usual
        self._catalog, self._recipes, self._plugins, self._memory_limit = catalog, recipes, plugins, memory_limit
        self._run = ""
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._station: Station
        self._capabilities: Capabilities

    def backends(self) -> list[str]:
        """Those that work here, each in the environment that is taken by itself."""
        found = self._probe([wanted.column for wanted in choose(self._usual, [], self._catalog, self._recipes)])
        return sorted({backend for (backend, _), capability in found.items() if capability.status == "ok"})

    def survey(self, request: Request) -> Survey:
        """Plan the request for this machine."""
        if different := difference(request.plugins, plugin_marks(self._plugins)):
            return Survey(host=host(), problem=f"its plug-ins differ from the client's: {different}; give both the same files")
        try:
            wanted = choose(
                request.backends or ([] if request.environments else self._usual), request.environments, self._catalog, self._recipes
            )
            columns = [self._there(one) if request.making else one.column for one in wanted]
            capabilities = self._probe(columns)
            options = msgspec.structs.replace(request.options, columns=columns, plugins=self._plugins)
            plan = make_plan(options, self._catalog, capabilities)
        except MetalbenchError as error:
            return Survey(host=host(), problem=str(error))
        able = [cell.key() for cell in plan.cells if cell.workload in capabilities[cell.column].offers]
        return Survey(host=host(), plan=plan, able=able)

    def measure(self, errand: Errand, tell: Callable[[Event], None], is_abandoned: Callable[[], bool]) -> Result:
        """Measure what of the errand was not measured here before. AbandonedError between two cells once nobody waits."""
        plan = errand.plan
        with measurement_lock():  # also while a block that a lost scheduler gave out is being finished
            self._begin(errand.run, plan.options)
            with open_store(str(_spool(errand.run))) as store:
                store.receive(Run(id=errand.run, started=time.time(), label="", host=host(), plan=msgspec.Raw(b"{}")), [])
                scheduler = Scheduler(
                    plan=plan,
                    run_id=errand.run,
                    store=store,
                    catalog=self._catalog,
                    capabilities=self._capabilities,
                    station=self._station,
                    listener=_Telling(errand.run, tell, is_abandoned),
                )
                scheduler.run()
                asked = {(plan.cells[place].key(), block.launch) for block in plan.blocks for place in block.cells}
                asked |= {(cell.key(), 0) for cell in plan.cells}  # where a cell that is ruled out says so
                records = [record for record in store.records(errand.run) if (record.cell.key(), record.launch) in asked]
        return Result(machine=host().key, run=errand.run, records=records)

    def _begin(self, run: str, options: Options) -> None:
        """One station a run: its devices are checked and its environments asked once, not once an errand."""
        if run == self._run:
            return
        self._capabilities = self._probe(options.columns)
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = tempfile.TemporaryDirectory(prefix="metalbench-")
        self._station = Station(options, self._catalog, self._capabilities, Path(self._folder.name), lambda _: None, self._memory_limit)
        self._run = run
        _spool(run).parent.mkdir(parents=True, exist_ok=True)
        for file in _spool(run).parent.iterdir():
            if file.stat().st_mtime < time.time() - KEPT:
                file.unlink(missing_ok=True)

    def _probe(self, columns: list[Column]) -> Capabilities:
        return Prober(self._catalog, self._recipes, self._plugins).probe(columns)

    def _there(self, wanted: Wanted) -> Column:
        """The column, its environment made where it was asked for by its requirements."""
        column, recipe = wanted
        if column.environment.python or recipe is None or recipe.name in self._recipes.by_name:
            return column
        with measurement_lock():  # installing would disturb who is measuring
            provisioning.create(recipe, self._recipes, lambda _: None)
        return Column(column.backend, provisioning.environment(recipe))


class _Telling:
    """Tells the client what starts and what is finished."""

    def __init__(self, run: str, tell: Callable[[Event], None], is_abandoned: Callable[[], bool]) -> None:
        self._run, self._tell, self._is_abandoned = run, tell, is_abandoned

    def preparing(self, cell: Cell) -> None: ...
    def opening(self, column: Column) -> None: ...
    def stage(self, name: str) -> None: ...

    def started(self, cell: Cell, launch: int) -> None:
        if self._is_abandoned():
            raise AbandonedError
        self._tell(Started(machine=host().key, run=self._run, cell=cell, launch=launch))

    def finished(self, record: Record) -> None:
        self._tell(Finished(machine=host().key, run=self._run, record=record))


def survey(request: bytes) -> bytes:
    """A task: ``Request`` → ``Survey``."""
    return msgspec.json.encode(_here().survey(msgspec.json.decode(request, type=Request)))


def measure(parts: dict[str, bytes]) -> bytes:
    """A task: the ``Errand`` of ``parts`` that is for the machine it came to → ``Result``."""
    worker = get_worker()
    errand = msgspec.json.decode(parts[host().key], type=Errand)
    key = worker.get_current_task()

    def tell(event: Event) -> None:
        worker.log_event(errand.topic, msgspec.json.encode(event))

    def is_abandoned() -> bool:
        task = worker.state.tasks.get(key)
        return worker.status.name == "running" and (task is None or task.state == "cancelled")

    return msgspec.json.encode(_here().measure(errand, tell, is_abandoned))


def _here() -> Machine:
    machine: Machine = get_worker().extensions[EXTENSION]
    return machine


def _spool(run: str) -> Path:
    return data_folder() / "fleet" / f"{slug(run)}.sqlite"
