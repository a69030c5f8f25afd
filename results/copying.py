"""From one store to another, run by run and row by row as they are stored, whatever databases they are in. It knows SQL."""

from __future__ import annotations

import functools
from collections.abc import Generator
from contextlib import closing
from typing import Any, NamedTuple

import sqlalchemy as sa

from metalbench.results import schema
from metalbench.results.database import Database, StoreError

BATCH = 1000  #: rows that are in memory at a time
STATES = ("running", "interrupted", "finished")  #: a run's, in the order in which it comes into them

Rows = list[dict[str, Any]]


class Copied(NamedTuple):
    """A run that is in both stores now: how many records it has in the source, and how many of them were new to the target."""

    run: str
    records: int
    new: int


def runs(source: Database) -> list[str]:
    """The ids of a store's runs, the oldest first. Raises StoreError."""
    with source.reading() as db:
        return list(db.scalars(sa.select(schema.run.c.id).order_by(schema.run.c.started, schema.run.c.id)))


def copy(run: str, source: Database, target: Database) -> Copied:
    """Put a run with all its records into the target, whole or not at all. What is there already stays as it is, but for the run's state.

    Raises StoreError, where the target has another run of this id too.
    """
    return target.durably(functools.partial(_put, run, source, target))


def _put(run: str, source: Database, target: Database, db: sa.Connection) -> Copied:
    fresh, records, new = True, 0, 0
    with closing(_rows(run, source)) as batches:
        for table, rows in batches:
            if table is schema.mark and not fresh:
                continue  # what was in work then is no longer
            made = db.execute(target.insert(table).on_conflict_do_nothing(), rows).rowcount
            if table is schema.run and not made:
                fresh = False
                _go_on(rows[0], target, db)
            if table is schema.record:
                records, new = records + len(rows), new + made
    return Copied(run, records, new)


def _rows(run: str, source: Database) -> Generator[tuple[sa.Table, Rows], None, None]:
    """All that belongs to a run, as it was at one moment, in batches and in an order in which each row finds those that it refers to."""
    own = schema.run.c.id == run
    cells = sa.select(schema.record.c.cell).where(schema.record.c.run == run)
    queries = (
        (schema.host, sa.select(schema.host).join(schema.run, schema.run.c.host == schema.host.c.key).where(own)),
        (schema.run, sa.select(schema.run).where(own)),
        # In the order of their keys: two programs that put in the same ones never wait for each other.
        (schema.cell, sa.select(schema.cell).where(schema.cell.c.key.in_(cells)).order_by(schema.cell.c.key)),
        (schema.record, sa.select(schema.record).where(schema.record.c.run == run)),
        (schema.mark, sa.select(schema.mark).where(schema.mark.c.run == run)),
    )
    with source.reading() as db:
        for table, query in queries:
            for batch in db.execute(query, execution_options={"yield_per": BATCH}).mappings().partitions():
                yield table, [dict(row) for row in batch]


def _go_on(run: dict[str, Any], target: Database, db: sa.Connection) -> None:
    """The run is there already: it is further now if it was further in the source."""
    there = db.execute(sa.select(schema.run.c.started, schema.run.c.host).where(schema.run.c.id == run["id"])).one()
    if tuple(there) != (run["started"], run["host"]):
        raise StoreError(f"The store {target.name} has another run that is called {run['id']}; copy into another store.")
    before = STATES[: STATES.index(run["state"])]
    db.execute(schema.run.update().where(schema.run.c.id == run["id"], schema.run.c.state.in_(before)).values(state=run["state"]))
