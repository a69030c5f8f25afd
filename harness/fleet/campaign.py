"""A fleet's measurement of one request: a run for each machine, what of them is still to be done, and what is kept of what arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from metalbench.harness.fleet.messages import Errand, Event, Finished, Result, Started
from metalbench.harness.fleet.session import Task
from metalbench.harness.plan import Block, Plan, only
from metalbench.results.record import TIMED, Cell, Record, Run
from metalbench.results.store import Store


class Member(NamedTuple):
    """One machine's part. ``able``: the keys of the cells that it has a backend for."""

    run: Run
    plan: Plan
    able: frozenset[str]

    @property
    def machine(self) -> str:
        return self.run.host.key


class Watcher(Protocol):
    """Who wants to know how it is going, machine by machine."""

    def started(self, machine: str, cell: Cell, launch: int) -> None: ...
    def finished(self, machine: str, record: Record) -> None: ...


class Campaign:
    """The members' runs, which are in the store, and their records, which come into it once each.

    Every machine measures its plan; or, ``anywhere``, each cell is measured by one that can, and kept once all its launches are there:
    launches of one cell on two machines would be no replicates.
    """

    def __init__(self, members: Sequence[Member], store: Store, watcher: Watcher, topic: str, *, anywhere: bool) -> None:
        self._members, self._store, self._watcher, self._topic, self._anywhere = members, store, watcher, topic, anywhere
        self._by_run = {member.run.id: member for member in members}
        self._done: dict[str, set[tuple[str, int]]] = {member.run.id: set() for member in members}
        self._settled: dict[str, set[str]] = {member.run.id: set() for member in members}
        for member in members:
            for record in store.records(member.run.id):
                self._note(member.run.id, record)

    def tasks(self) -> list[Task]:
        """What is not in the store yet."""
        if self._anywhere:
            return list(self._wandering())
        return [task for member in self._members for task in self._bound(member)]

    def hear(self, event: Event) -> None:
        match event:
            case Started(machine=machine, cell=cell, launch=launch):
                self._watcher.started(machine, cell, launch)
            case Finished(run=run, record=record) if not self._anywhere:
                self._keep(run, record)

    def receive(self, _: Task, result: Result) -> None:
        for record in result.records:
            self._keep(result.run, record)

    def close(self) -> bool:
        """Give each run the state that it has come to; whether all of it is done."""
        missing = self.tasks()
        for member in self._members:
            own = [task for task in missing if self._anywhere or member.machine in task.parts]
            self._store.become(member.run.id, "interrupted" if own else "finished")
            if self._anywhere and not missing:
                self._store.narrow(member.run.id, self._share(member))
        return not missing

    def _share(self, member: Member) -> msgspec.Raw | None:
        """The plan of what the machine came to measure; None for nothing."""
        mine = {key for key, _ in self._done[member.run.id]}
        return msgspec.Raw(msgspec.json.encode(only(member.plan, mine))) if mine else None

    def _bound(self, member: Member) -> Iterator[Task]:
        run, plan = member.run.id, member.plan
        for number, block in enumerate(plan.blocks):
            cells = [plan.cells[place] for place in block.cells if not self._is_done(run, plan.cells[place], block.launch)]
            if cells:
                part = msgspec.structs.replace(plan, cells=cells, blocks=[Block(block.launch, block.column, list(range(len(cells))))])
                errand = Errand(run=run, topic=self._topic, plan=part)
                yield Task(f"{run}/{number}", cells[0].backend, {member.machine: errand}, anywhere=False)

    def _wandering(self) -> Iterator[Task]:
        for key, places in self._whereabouts().items():
            cell = places[0][1]
            launches = range(places[0][0].plan.options.launches)
            if any(all(self._is_done(member.run.id, cell, launch) for launch in launches) for member, _ in places):
                continue
            able = [member for member, _ in places if key in member.able]
            parts = {member.machine: self._errand(member, cell) for member in able or [places[0][0]]}
            yield Task(key, cell.backend, parts, anywhere=bool(able))

    def _whereabouts(self) -> dict[str, list[tuple[Member, Cell]]]:
        """Cell → the members that have it planned; without what is only planned where its backend, present elsewhere, is missing."""
        found: dict[str, list[tuple[Member, Cell]]] = {}
        served = set()
        for member in self._members:
            for cell in member.plan.cells:
                found.setdefault(cell.key(), []).append((member, cell))
                if cell.key() in member.able:
                    served.add(_without_variant(cell))
        return {
            key: places
            for key, places in found.items()
            if any(key in member.able for member, _ in places) or _without_variant(places[0][1]) not in served
        }

    def _errand(self, member: Member, cell: Cell) -> Errand:
        options = member.plan.options
        column = [column.key for column in options.columns].index(cell.column)
        blocks = [Block(launch, column, [0]) for launch in range(options.launches)]
        plan = msgspec.structs.replace(member.plan, cells=[cell], blocks=blocks)
        return Errand(run=member.run.id, topic=self._topic, plan=plan)

    def _keep(self, run: str, record: Record) -> None:
        if (record.cell.key(), record.launch) not in self._done[run]:
            self._store.add(run, record)
            self._note(run, record)
            self._watcher.finished(self._by_run[run].machine, record)

    def _note(self, run: str, record: Record) -> None:
        self._done[run].add((record.cell.key(), record.launch))
        if record.measurement.status not in TIMED:
            self._settled[run].add(record.cell.key())

    def _is_done(self, run: str, cell: Cell, launch: int) -> bool:
        return cell.key() in self._settled[run] or (cell.key(), launch) in self._done[run]


def missing_launches(tasks: Iterable[Task], lost: Mapping[str, str]) -> dict[tuple[str, str], int]:
    """(Machine, why it is not done) → how many launches of cells; the machine is empty where any would have done."""
    out: dict[tuple[str, str], int] = {}
    for task in tasks:
        if task.name in lost:
            where = "" if task.anywhere else next(iter(task.parts))
            plan = next(iter(task.parts.values())).plan
            count = sum(len(block.cells) for block in plan.blocks)
            out[where, lost[task.name]] = out.get((where, lost[task.name]), 0) + count
    return out


def _without_variant(cell: Cell) -> tuple[str, str, str, str]:
    return cell.workload, cell.case_text(), cell.backend, cell.environment
