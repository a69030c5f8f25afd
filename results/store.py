"""Where records are kept: SQLite in a file by default, PostgreSQL by URL. The only module that knows SQL.

Raw records only; what is derived from them is computed when it is read. A record is durable when ``add`` returns.
"""

from __future__ import annotations

import difflib
import sqlite3
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from metalbench.results import schema
from metalbench.results.record import SCHEMA_VERSION, Cell, Host, Measurement, Record, Run, RunState

#: the databases a store can be in, and how each inserts what may be there already
INSERT: dict[str, Callable[[sa.Table], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
REMEDY = "give a file, or a sqlite:/// or postgresql:// URL"


class StoreError(Exception):
    """The store can't be used as asked; the message is one sentence that names it and the remedy."""


class Mark(NamedTuple):
    """The cell in work: its key, its launch, and the boot of the machine that began it."""

    cell: str
    launch: int
    boot_id: str


class RunSummary(NamedTuple):
    id: str
    started: float
    label: str
    state: RunState
    records: int


class Store:
    """Runs and their records. Made by ``open_store``; use as a context manager. Every method may raise StoreError."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        self._engine, self._name = engine, name
        self._insert = INSERT[engine.dialect.name]
        with self._transaction() as db:
            tables = set(sa.inspect(db).get_table_names())
            if tables:
                self._recognise(db, tables)
                return
        with self._transaction(writing=True) as db:  # whole or not at all, and not twice at once
            schema.metadata.create_all(db)
            db.execute(self._insert(schema.meta).values(key="schema", value=str(SCHEMA_VERSION)).on_conflict_do_nothing())
        if engine.dialect.name == "sqlite":
            _write_ahead(engine)

    def _recognise(self, db: sa.Connection, tables: set[str]) -> None:
        """Refuse what isn't ours or comes from the future, before anything is written to it."""
        if "meta" not in tables:
            raise StoreError(f"{self._name} is a database of something else; give --store another place.")
        found = db.execute(sa.select(schema.meta.c.value).where(schema.meta.c.key == "schema")).scalar_one()
        if int(found) > SCHEMA_VERSION:
            raise StoreError(
                f"The store {self._name} was written by a newer metalbench (schema {found}, this one knows {SCHEMA_VERSION}); "
                "upgrade metalbench or give --store another place."
            )

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self._engine.dispose()

    def begin(self, run: Run) -> None:
        with self._transaction() as db:
            facts = msgspec.json.encode(run.host.facts).decode()
            db.execute(self._insert(schema.host).values(key=run.host.key, facts=facts).on_conflict_do_nothing())
            values = {"id": run.id, "started": run.started, "label": run.label, "host": run.host.key, "state": run.state}
            db.execute(self._insert(schema.run).values(plan=bytes(run.plan).decode(), **values))

    def finish(self, run_id: str, state: RunState) -> None:
        with self._transaction() as db:
            db.execute(schema.run.update().where(schema.run.c.id == run_id).values(state=state))

    def mark(self, run_id: str, cell: str, launch: int, boot_id: str) -> None:
        """Note what is about to be measured, so that a machine that goes down over it is not driven there again."""
        with self._transaction() as db:
            db.execute(schema.mark.delete().where(schema.mark.c.run == run_id))
            db.execute(schema.mark.insert().values(run=run_id, cell=cell, launch=launch, boot_id=boot_id))

    def marked(self, run_id: str) -> Mark | None:
        with self._transaction() as db:
            row = db.execute(
                sa.select(schema.mark.c.cell, schema.mark.c.launch, schema.mark.c.boot_id).where(schema.mark.c.run == run_id)
            ).one_or_none()
        return None if row is None else Mark(*row)

    def clear_mark(self, run_id: str) -> None:
        with self._transaction() as db:
            db.execute(schema.mark.delete().where(schema.mark.c.run == run_id))

    def add(self, run_id: str, record: Record) -> None:
        """Keep a record and take the run's mark away, at once or not at all. A second record of the same launch is ignored."""
        key = record.cell.key()
        bare = msgspec.structs.replace(record.measurement, spans_ns=[])
        host = sa.select(schema.run.c.host).where(schema.run.c.id == run_id).scalar_subquery()
        spans = struct.pack(f"<{len(record.measurement.spans_ns)}q", *record.measurement.spans_ns)
        values = {"run": run_id, "cell": key, "launch": record.launch, "started": record.started, "spans": spans}
        with self._transaction() as db:
            fields = msgspec.json.encode(record.cell).decode()
            db.execute(self._insert(schema.cell).values(key=key, fields=fields).on_conflict_do_nothing())
            measurement = msgspec.json.encode(bare).decode()
            db.execute(self._insert(schema.record).values(host=host, measurement=measurement, **values).on_conflict_do_nothing())
            db.execute(schema.mark.delete().where(schema.mark.c.run == run_id))

    def records(self, run_id: str) -> list[Record]:
        """The run's records in the order they were made."""
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
            .where(schema.record.c.run == run_id)
            .order_by(schema.record.c.started)
        )
        with self._transaction() as db:
            return [_decode(row) for row in db.execute(query)]

    def runs(self, limit: int) -> list[RunSummary]:
        """The newest first."""
        count = sa.select(sa.func.count()).where(schema.record.c.run == schema.run.c.id).scalar_subquery()
        columns = (schema.run.c.id, schema.run.c.started, schema.run.c.label, schema.run.c.state, count)
        with self._transaction() as db:
            return [RunSummary(*row) for row in db.execute(sa.select(*columns).order_by(schema.run.c.started.desc()).limit(limit))]

    def run(self, name: str) -> Run:
        """The run with this id, else the newest with this label; ``latest`` is the newest of all, ``latest~1`` the one before."""
        word, tilde, back = name.partition("~")
        runs = sa.select(schema.run.c.id)
        if word == "latest" and (back.isascii() and back.isdigit() if tilde else True):
            query = runs.order_by(schema.run.c.started.desc()).offset(int(back or 0))
        else:
            named = runs.where(sa.or_(schema.run.c.id == name, schema.run.c.label == name))
            query = named.order_by(sa.case((schema.run.c.id == name, 0), else_=1), schema.run.c.started.desc())
        with self._transaction() as db:
            found = db.execute(query.limit(1)).scalars().first()
        if found is None:
            raise StoreError(self._no_run(name))
        return self._load(found)

    def unfinished(self) -> Run | None:
        """The newest run that did not come to its end."""
        query = sa.select(schema.run.c.id).where(schema.run.c.state != "finished").order_by(schema.run.c.started.desc()).limit(1)
        with self._transaction() as db:
            found = db.execute(query).scalars().first()
        return None if found is None else self._load(found)

    def _load(self, run_id: str) -> Run:
        query = (
            sa.select(schema.run, schema.host.c.facts)
            .join(schema.host, schema.host.c.key == schema.run.c.host)
            .where(schema.run.c.id == run_id)
        )
        with self._transaction() as db:
            row = db.execute(query).one()
        host = Host(key=row.host, facts=msgspec.json.decode(row.facts, type=dict[str, str]))
        plan = msgspec.Raw(row.plan.encode())
        return Run(id=row.id, started=row.started, label=row.label, host=host, plan=plan, state=row.state)

    def _no_run(self, name: str) -> str:
        recent = self.runs(1000)
        if not recent:
            return f"The store {self._name} holds no runs yet; `bench run` makes one."
        names = [run.id for run in recent] + [run.label for run in recent if run.label]
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "`bench list runs` shows what there is."
        return f"There is no run called {name!r}; {hint}"

    @contextmanager
    def _transaction(self, *, writing: bool = False) -> Iterator[sa.Connection]:
        try:
            with self._engine.execution_options(writing=writing).begin() as db:
                yield db
        except (SQLAlchemyError, msgspec.DecodeError, struct.error) as error:
            raise StoreError(_sentence(self._name, error)) from error


def open_store(place: str) -> Store:
    """The store at ``place``, a file's path or a database URL, made if it isn't there. Raises StoreError."""
    url: sa.URL | None = None
    try:
        url = sa.make_url(place) if "://" in place else sa.URL.create("sqlite", database=str(Path(place).expanduser().absolute()))
        if url.get_backend_name() not in INSERT:
            raise StoreError(f"The store {url} is of a kind metalbench does not use; {REMEDY}.")
        name = str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string()
        if url.get_backend_name() == "sqlite" and url.database:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        engine = sa.create_engine(url, connect_args={"timeout": 30} if url.get_backend_name() == "sqlite" else {})
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise StoreError(f"The store {place!r} is not a place that can be opened; {REMEDY}.") from None
    except ImportError as error:
        raise StoreError(f"The store {url} needs a database driver that is not installed: {error}.") from None
    except OSError as error:
        raise StoreError(f"The store {place} can't be made: {error.strerror}; give --store another place.") from error
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _settle)
        sa.event.listen(engine, "begin", _begin)
    return Store(engine, name)


def _write_ahead(engine: sa.Engine) -> None:
    """Readers beside the writer: a mode that stays with the file, and can't be set in a transaction.

    Another program that opens the new store holds it for a moment, and for that SQLite does not wait by itself.
    """
    with closing(engine.raw_connection()) as connection:
        for _ in range(100):
            with suppress(sqlite3.OperationalError):
                connection.cursor().execute("PRAGMA journal_mode = WAL")
                return
            time.sleep(0.02)


def _settle(connection: Any, _: object) -> None:
    """SQLite: transactions are ours to begin, and a commit is on the disk when it returns, also on macOS."""
    connection.isolation_level = None
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    if sys.platform == "darwin":
        connection.execute("PRAGMA fullfsync = ON")


def _begin(connection: sa.Connection) -> None:
    """The driver would leave statements that make tables outside of any transaction."""
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writing") else "BEGIN")


def _decode(row: Any) -> Record:
    measurement = msgspec.json.decode(row.measurement, type=Measurement)
    spans = list(struct.unpack(f"<{len(row.spans) // 8}q", row.spans))
    return Record(
        cell=msgspec.json.decode(row.fields, type=Cell),
        launch=row.launch,
        started=row.started,
        measurement=msgspec.structs.replace(measurement, spans_ns=spans),
    )


def _sentence(name: str, error: Exception) -> str:
    what = " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())
    if any(words in what for words in ("readonly", "unable to open", "read-only", "disk I/O", "is full")):
        return f"The store {name} can't be written ({what}); give --store a place that you may write to."
    if "locked" in what:
        return f"The store {name} is in use by another program ({what}); wait for it to end."
    damage = ("not a database", "malformed", "no such", "corrupt")
    if isinstance(error, msgspec.DecodeError | struct.error) or any(words in what for words in damage):
        return f"The store {name} is damaged or not a metalbench store ({what}); give --store another place or restore it from a copy."
    return f"The store {name} can't be used ({what}); see that it is reachable, or give --store another place."
