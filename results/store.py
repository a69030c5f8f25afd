"""Where records are kept: SQLite in a file by default, PostgreSQL by URL. Nobody but this and what it stands on knows SQL.

Raw records only; what is derived from them is computed when it is read. A record is durable when ``add`` returns.
"""

from __future__ import annotations

import difflib
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from metalbench.results import schema
from metalbench.results.addresses import connect
from metalbench.results.database import Database, StoreError
from metalbench.results.machines import fleet_name
from metalbench.results.record import Cell, Host, Measurement, Record, Run, RunState

__all__ = ["Mark", "RunSummary", "Store", "StoreError", "open_store"]


_NEWEST_FIRST = (schema.run.c.started.desc(), schema.run.c.id.desc())


class Mark(NamedTuple):
    """The cell in work: its key, its launch, and the boot of the machine that began it."""

    cell: str
    launch: int
    boot_id: str


class RunSummary(NamedTuple):
    id: str
    started: float
    label: str
    host: str
    state: RunState
    records: int


class Store:
    """Runs and their records. Made by ``open_store``; use as a context manager. Every method may raise StoreError."""

    def __init__(self, database: Database, *, make: bool = True) -> None:
        self.database, self._insert, self._reading = database, database.insert, database.reading
        try:
            schema.ensure(database, make=make)
        except BaseException:
            database.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.database.close()

    def begin(self, run: Run) -> None:
        with self.database.writing() as db:
            db.execute(self._beginning(db, run))

    def _beginning(self, db: sa.Connection, run: Run) -> Any:
        """The statement that puts a run in, its host being there."""
        facts = msgspec.json.encode(run.host.facts).decode()
        db.execute(self._insert(schema.host).values(key=run.host.key, facts=facts).on_conflict_do_nothing())
        values = {"id": run.id, "started": run.started, "label": run.label, "host": run.host.key, "state": run.state}
        values |= {"plan": bytes(run.plan).decode(), "revision": run.revision, "beside": run.beside}
        return self._insert(schema.run).values(**values)

    def become(self, run_id: str, state: RunState) -> None:
        """Note the state that a run has come into."""
        self.database.durably(lambda db: db.execute(schema.run.update().where(schema.run.c.id == run_id).values(state=state)))

    def narrow(self, run_id: str, plan: msgspec.Raw | None) -> None:
        """Replace a run's plan by the part that was this run's; with None there was none, and the run goes, which has no records."""
        own = schema.run.c.id == run_id
        change = schema.run.delete().where(own) if plan is None else schema.run.update().where(own).values(plan=bytes(plan).decode())
        self.database.durably(lambda db: db.execute(change))

    def mark(self, run_id: str, cell: str, launch: int, boot_id: str) -> None:
        """Note what is about to be measured, so that a machine that goes down over it is not driven there again."""

        def change(db: sa.Connection) -> None:
            db.execute(schema.mark.delete().where(schema.mark.c.run == run_id))
            db.execute(schema.mark.insert().values(run=run_id, cell=cell, launch=launch, boot_id=boot_id))

        self.database.durably(change)

    def marked(self, run_id: str) -> Mark | None:
        with self._reading() as db:
            row = db.execute(
                sa.select(schema.mark.c.cell, schema.mark.c.launch, schema.mark.c.boot_id).where(schema.mark.c.run == run_id)
            ).one_or_none()
        return None if row is None else Mark(*row)

    def clear_mark(self, run_id: str) -> None:
        self.database.durably(lambda db: db.execute(schema.mark.delete().where(schema.mark.c.run == run_id)))

    def add(self, run_id: str, record: Record) -> None:
        """Keep a record and take the run's mark away, at once or not at all. A second record of the same launch is ignored."""

        def change(db: sa.Connection) -> None:
            self._add(db, run_id, record)
            db.execute(schema.mark.delete().where(schema.mark.c.run == run_id))

        self.database.durably(change)

    def receive(self, run: Run, records: Sequence[Record]) -> int:
        """Keep a run that was measured elsewhere, whole or not at all; how many of its records were not here yet."""

        def change(db: sa.Connection) -> int:
            db.execute(self._beginning(db, run).on_conflict_do_nothing())
            if run.state == "finished":
                db.execute(schema.run.update().where(schema.run.c.id == run.id).values(state=run.state))
            return sum(self._add(db, run.id, record) for record in records)

        return self.database.durably(change)

    def _add(self, db: sa.Connection, run_id: str, record: Record) -> int:
        """The number of records that this made, 0 or 1."""
        key = record.cell.key()
        bare = msgspec.structs.replace(record.measurement, spans_ns=[])
        host = sa.select(schema.run.c.host).where(schema.run.c.id == run_id).scalar_subquery()
        spans = struct.pack(f"<{len(record.measurement.spans_ns)}q", *record.measurement.spans_ns)
        values = {"run": run_id, "cell": key, "launch": record.launch, "started": record.started, "spans": spans}
        fields = msgspec.json.encode(record.cell).decode()
        db.execute(self._insert(schema.cell).values(key=key, fields=fields).on_conflict_do_nothing())
        measurement = msgspec.json.encode(bare).decode()
        made = db.execute(self._insert(schema.record).values(host=host, measurement=measurement, **values).on_conflict_do_nothing())
        return int(made.rowcount)

    def records(self, run_id: str, cell: str | None = None) -> list[Record]:
        """The run's records in the order they were made, or those of the cell with this key."""
        columns = (
            schema.cell.c.fields,
            schema.record.c.launch,
            schema.record.c.started,
            schema.record.c.spans,
            schema.record.c.measurement,
        )
        query = (
            sa.select(*columns)
            .join(schema.cell, schema.cell.c.key == schema.record.c.cell)
            .where(schema.record.c.run == run_id, *([] if cell is None else [schema.record.c.cell == cell]))
            .order_by(schema.record.c.started, schema.record.c.cell, schema.record.c.launch)
        )
        with self._reading() as db:
            return [_decode(row) for row in db.execute(query)]

    def count(self, run_id: str) -> int:
        """How many records the run has."""
        with self._reading() as db:
            return int(db.scalar(sa.select(sa.func.count()).where(schema.record.c.run == run_id)) or 0)

    def hosts(self) -> list[Host]:
        """The machines that runs were made on; one whose system was updated is there several times."""
        with self._reading() as db:
            rows = db.execute(sa.select(schema.host.c.key, schema.host.c.facts)).all()
        return [Host(key=key, facts=msgspec.json.decode(facts, type=dict[str, str])) for key, facts in rows]

    def runs(self, limit: int | None = None) -> list[RunSummary]:
        """The newest first, all of them without a ``limit``."""
        count = sa.select(sa.func.count()).where(schema.record.c.run == schema.run.c.id).scalar_subquery()
        columns = (schema.run.c.id, schema.run.c.started, schema.run.c.label, schema.run.c.host, schema.run.c.state, count)
        with self._reading() as db:
            return [RunSummary(*row) for row in db.execute(sa.select(*columns).order_by(*_NEWEST_FIRST).limit(limit))]

    def run(self, name: str) -> Run:
        """The run called ``name``; StoreError with the nearest names if there is none."""
        found = self.find(name)
        if found is None:
            raise StoreError(self._no_run(name))
        return found

    def find(self, name: str) -> Run | None:
        """The run with this id, else the newest with this label; ``latest`` is the newest of all, ``latest~1`` the one before."""
        word, tilde, back = name.partition("~")
        runs = sa.select(schema.run.c.id)
        if word == "latest" and (back.isascii() and back.isdigit() if tilde else True):
            query = runs.order_by(*_NEWEST_FIRST).offset(min(int(back or 0), 1 << 40))
        elif (run := self._first(runs.where(schema.run.c.id == name))) is not None:  # the key: no need to read what else there is
            return run
        else:
            query = runs.where(schema.run.c.label == name).order_by(*_NEWEST_FIRST)
        return self._first(query)

    def at_revision(self, revision: str) -> Run | None:
        """The newest run that was made at a commit, and not beside another."""
        alone = sa.select(schema.run.c.id).where(schema.run.c.revision == revision, schema.run.c.beside == "")
        return self._first(alone.order_by(*_NEWEST_FIRST))

    def unfinished(self, hosts: Sequence[Host]) -> Run | None:
        """The newest run of these hosts that did not come to its end and can: one that was measured beside another can't."""
        here = schema.run.c.host.in_([host.key for host in hosts])
        open_ = sa.select(schema.run.c.id).where(here, schema.run.c.state != "finished", schema.run.c.beside == "")
        return self._first(open_.order_by(*_NEWEST_FIRST))

    def _first(self, runs: sa.Select[Any]) -> Run | None:
        with self._reading() as db:
            found: str | None = db.scalar(runs.limit(1))
        return None if found is None else self.load([found])[0]

    def fleet(self, name: str) -> list[Run]:
        """The runs that several machines made together, under the name they share, or the id or the label of one of them."""
        found = self.find(name)
        shared = name if found is None else fleet_name(found.id)
        if not shared:
            return []
        with self._reading() as db:
            ids = db.scalars(sa.select(schema.run.c.id).where(schema.run.c.id.startswith(f"{shared}-", autoescape=True)))
            members = [run for run in ids if fleet_name(run) == shared]
        return self.load(sorted(members))

    def load(self, ids: Sequence[str]) -> list[Run]:
        """The runs with these ids, in their order."""
        columns = sa.select(schema.run, schema.host.c.facts).join(schema.host, schema.host.c.key == schema.run.c.host)
        with self._reading() as db:
            rows = {row.id: row for row in db.execute(columns.where(schema.run.c.id.in_(ids)))}
        return [_run(rows[name]) for name in ids]

    def _no_run(self, name: str) -> str:
        recent = self.runs(1000)
        if not recent:
            return f"The store {self.database.name} holds no runs yet; `bench run` makes one."
        names = [run.id for run in recent] + [run.label for run in recent if run.label]
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "`bench list runs` shows what there is."
        return f"There is no run called {name!r}; {hint}"


def open_store(place: str, *, make: bool = True) -> Store:
    """The store at ``place``, a file's path or a database URL, made if it isn't there. Raises StoreError, without ``make`` for that too."""
    return Store(connect(place, make=make), make=make)


def _run(row: Any) -> Run:
    host = Host(key=row.host, facts=msgspec.json.decode(row.facts, type=dict[str, str]))
    fields = {name: getattr(row, name) for name in ("id", "started", "label", "state", "revision", "beside")}
    return Run(host=host, plan=msgspec.Raw(row.plan.encode()), **fields)


def _decode(row: Any) -> Record:
    measurement = msgspec.json.decode(row.measurement, type=Measurement)
    spans = list(struct.unpack(f"<{len(row.spans) // 8}q", row.spans))
    return Record(
        cell=msgspec.json.decode(row.fields, type=Cell),
        launch=row.launch,
        started=row.started,
        measurement=msgspec.structs.replace(measurement, spans_ns=spans),
    )
