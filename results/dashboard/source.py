"""What the pages are made from: a store, read when a page asks, and the paths by which pages name runs, cells and machines."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from metalbench.results.dashboard.view import NoPageError
from metalbench.results.history import History
from metalbench.results.layout import Naming
from metalbench.results.machines import same_machine
from metalbench.results.record import Cell, Host, Run
from metalbench.results.series import series
from metalbench.results.store import RunSummary, Store
from metalbench.results.summary import Summary, summarise

KEPT = 16  #: runs whose summaries are kept in memory: those of the overview, and what a visitor goes back and forth between
T = TypeVar("T")
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}")


class Source:
    """Reads the store. ``naming`` calls cases by their workloads' notation. Raises StoreError, and NoPageError where nothing is."""

    def __init__(self, store: Store, naming: Naming) -> None:
        self.store, self.naming = store, naming
        self._kept: OrderedDict[tuple[str, int], tuple[Run, list[Summary]]] = OrderedDict()
        self._lock = threading.Lock()

    def runs(self) -> list[RunSummary]:
        """All of them, the newest first."""
        return self.store.runs()

    def measured(self, run_id: str) -> tuple[Run, list[Summary]]:
        """The run and its cells, in the order of its plan."""
        with self._lock:
            count = self.store.count(run_id)
            if (run_id, count) not in self._kept:
                run = self.store.run(run_id)
                self._kept[run_id, count] = (run, summarise(run, self.store.records(run_id)))
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end((run_id, count))
            return self._kept[run_id, count]

    def hosts(self, like: str) -> list[Host]:
        """The machine whose host has the slug ``like``, as it was under each of its systems."""
        hosts = self.store.hosts()
        machine = _called(like, {host.key: host for host in hosts}, "machine")
        return [host for host in hosts if same_machine(host, machine)]

    def histories(self, machine: Sequence[Host], wanted: Callable[[Cell], bool]) -> list[History]:
        """The series of the cells that ``wanted`` admits on a machine."""
        return [History(cell, points) for cell, points in series(self.store.database, machine, wanted)]

    def run_called(self, name: str) -> str:
        """The id of the run with this slug."""
        if slug(name) == name and (run := self.store.find(name)) is not None and run.id == name:
            return name
        return _called(name, {run.id: run.id for run in self.runs()}, "run")


def _called(name: str, known: dict[str, T], kind: str) -> T:
    if name in known and slug(name) == name:
        return known[name]
    for key, value in known.items():
        if slug(key) == name:
            return value
    raise NoPageError(f"There is no {kind} {name} in this store.")


def slug(name: str) -> str:
    """A name as it stands in paths: itself where that is plain, a hash of it where it isn't, since imported names are anybody's."""
    return name if PLAIN.fullmatch(name) else f"x{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def run_path(run_id: str, kind: str = "run") -> str:
    """Of the page of this ``kind`` for a run: run, scaling, roofline, operators."""
    return f"{kind}/{slug(run_id)}.html"


def cell_path(run_id: str, cell: Cell) -> str:
    return f"cell/{slug(run_id)}/{cell.key()}.html"


def history_path(host: Host | str, cell: Cell) -> str:
    return f"history/{slug(host if isinstance(host, str) else host.key)}/{cell.key()}.html"


def comparison_path(base: str, candidate: str) -> str:
    return f"compare/{slug(base)}/{slug(candidate)}.html"
