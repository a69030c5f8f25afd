"""The tables of a store, and their versions. ``record`` is one launch of one cell; with its host the cell is the series it belongs to."""

from __future__ import annotations

import sqlalchemy as sa

from metalbench.results.database import Database, StoreError

VERSION = 2
#: version → what brings a store of the version before up to it
UPGRADES = {2: [f"ALTER TABLE run ADD COLUMN {name} TEXT NOT NULL DEFAULT ''" for name in ("revision", "beside")]}

metadata = sa.MetaData()
meta = sa.Table("meta", metadata, sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))
host = sa.Table("host", metadata, sa.Column("key", sa.Text, primary_key=True), sa.Column("facts", sa.Text, nullable=False))
run = sa.Table(
    "run",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("host", sa.ForeignKey("host.key"), nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("revision", sa.Text, nullable=False, server_default=""),
    sa.Column("beside", sa.Text, nullable=False, server_default=""),
)
cell = sa.Table("cell", metadata, sa.Column("key", sa.Text, primary_key=True), sa.Column("fields", sa.Text, nullable=False))
record = sa.Table(
    "record",
    metadata,
    sa.Column("run", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("cell", sa.ForeignKey("cell.key"), primary_key=True),
    sa.Column("launch", sa.Integer, primary_key=True),
    sa.Column("host", sa.ForeignKey("host.key"), nullable=False),  # with the cell it is the series
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("spans", sa.LargeBinary, nullable=False),  # int64, little-endian
    sa.Column("measurement", sa.Text, nullable=False),  # JSON, without the spans
    sa.Index("record_by_series", "host", "cell", "started"),
)
mark = sa.Table(
    "mark",
    metadata,
    sa.Column("run", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("cell", sa.Text, nullable=False),
    sa.Column("launch", sa.Integer, nullable=False),
    sa.Column("boot_id", sa.Text, nullable=False),
)


def ensure(database: Database) -> None:
    """Make the tables where there are none, bring older ones up to date, and refuse what isn't ours or comes from the future.

    Nothing is written before the store is known to be one of ours. Raises StoreError.
    """
    if not (tables := database.tables()):
        with database.transaction(writing=True) as db:  # whole or not at all, and not twice at once
            metadata.create_all(db)
            db.execute(database.insert(meta).values(key="schema", value=str(VERSION)).on_conflict_do_nothing())
        database.write_ahead()
        return
    if "meta" not in tables:
        raise StoreError(f"{database.name} is a database of something else; give --store another place.")
    with database.transaction() as db:
        found = _version(db)
    if found > VERSION:
        raise StoreError(
            f"The store {database.name} was written by a newer metalbench (schema {found}, this one knows {VERSION}); "
            "upgrade metalbench or give --store another place."
        )
    if found < VERSION:
        with database.transaction(writing=True) as db:
            for version in range(_version(db) + 1, VERSION + 1):  # asked again: another program may have been faster
                for statement in UPGRADES[version]:
                    db.execute(sa.text(statement))
            db.execute(meta.update().where(meta.c.key == "schema").values(value=str(VERSION)))


def _version(db: sa.Connection) -> int:
    found: str = db.execute(sa.select(meta.c.value).where(meta.c.key == "schema")).scalar_one()
    return int(found) if found.isdecimal() else VERSION + 1  # of nobody we know
