"""What a store holds of each cell over time. It knows SQL."""

from __future__ import annotations

import itertools
import statistics
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from metalbench.results import schema
from metalbench.results.database import Database
from metalbench.results.history import Point
from metalbench.results.record import GRAVITY, TIMED, Cell, Host, Status


def series(database: Database, hosts: Sequence[Host], wanted: Callable[[Cell], bool]) -> Iterator[tuple[Cell, list[Point]]]:
    """The cells that ``wanted`` admits and the hosts have measured, each with a point a run, the oldest first.

    Runs that were measured beside another are left out: their revision may be an old one, measured today. Raises StoreError.
    """
    columns = (
        schema.run.c.id,
        schema.run.c.started,
        schema.run.c.revision,
        schema.record.c.host,
        schema.record.c.launch,
        schema.record.c.spans,
        schema.record.c.measurement,
    )
    here = (schema.record.c.host.in_([host.key for host in hosts]), schema.run.c.beside == "")
    joined = sa.select(*columns).join(schema.run, schema.run.c.id == schema.record.c.run).where(*here)
    ordered = joined.order_by(schema.run.c.started, schema.run.c.id, schema.record.c.launch)
    systems = {host.key: " ".join(filter(None, (host.facts.get(name) for name in ("system", "build")))) for host in hosts}
    with database.reading() as db:
        for key, fields in db.execute(sa.select(schema.cell.c.key, schema.cell.c.fields)).all():
            cell = msgspec.json.decode(fields, type=Cell)
            rows = db.execute(ordered.where(schema.record.c.cell == key)) if wanted(cell) else ()
            points = [_point(list(own), systems) for _, own in itertools.groupby(rows, key=lambda row: row.id)]
            if points:
                yield cell, points


class Count(NamedTuple):
    """A cell on a host: how many launches its series has, and when the cell was last measured, in seconds since 1970, UTC."""

    cell: Cell
    host: str
    launches: int
    newest: float


def counts(database: Database) -> list[Count]:
    """Of each cell on each host of which ``series`` has points. From indexes alone, however many records. Raises StoreError."""
    record, place = schema.record.c, (schema.record.c.host, schema.record.c.cell)
    beside = sa.select(schema.run.c.id).where(schema.run.c.beside != "")
    every = sa.select(*place, sa.func.count(), sa.func.max(record.started)).group_by(*place)
    left_out = sa.select(*place, sa.func.count()).where(record.run.in_(beside)).group_by(*place)
    with database.reading() as db:
        # In this order: what another program adds meanwhile is in the later answer, not only in the earlier one.
        fewer = {(host, key): launches for host, key, launches in db.execute(left_out)}
        rows = db.execute(every).all()
        cells = {row.key: msgspec.json.decode(row.fields, type=Cell) for row in db.execute(sa.select(schema.cell))}
    found = [Count(cells[key], host, launches - fewer.get((host, key), 0), newest) for host, key, launches, newest in rows]
    return [count for count in found if count.launches]


class _Glance(msgspec.Struct, frozen=True):
    """Of a measurement, what a history needs: the rest is passed over unread."""

    status: Status
    calls_per_sample: int = 1
    facts: dict[str, str] = {}


def _point(rows: Sequence[Any], systems: Mapping[str, str]) -> Point:
    """One run's launches of a cell. ``systems``: host → the system's version and build, which an update changes."""
    found = [(msgspec.json.decode(row.measurement, type=_Glance), row.spans) for row in rows]
    timed = [(glance, struct.unpack(f"<{len(spans) // 8}q", spans)) for glance, spans in found if spans and glance.status in TIMED]
    return Point(
        run=rows[0].id,
        started=rows[0].started,
        host=rows[0].host,
        revision=rows[0].revision,
        medians=[statistics.median(spans) / glance.calls_per_sample for glance, spans in timed],
        status=min((glance.status for glance, _ in found), key=GRAVITY.index),
        facts=next((glance.facts for glance, _ in reversed(found) if glance.facts), {}) | {"system": systems[rows[0].host]},
    )
