"""The tables of a store, and their versions. ``record`` is one launch of one cell; with its host the cell is the series it belongs to."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from metalbench.results.database import Database, StoreError

VERSION = 2
#: version → what brings a store of the version before up to it
UPGRADES = {2: [f"ALTER TABLE run ADD COLUMN {name} TEXT NOT NULL DEFAULT ''" for name in ("revision", "beside")]}


class Text(sa.TypeDecorator[str]):
    """Any text, in the order of its code points whatever a server's language is.

    PostgreSQL's can't hold NUL: there it is written as two characters, U+0001 twice, and U+0001 itself as U+0001 U+0002, which keeps the
    order and leaves every text without either of them, all but the oddest, as it is.
    """

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        return dialect.type_descriptor(sa.Text(collation="C" if dialect.name == "postgresql" else None))

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return value.replace("\1", "\1\2").replace("\0", "\1\1") if value and dialect.name == "postgresql" else value

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return value.replace("\1\1", "\0").replace("\1\2", "\1") if value and dialect.name == "postgresql" else value


metadata = sa.MetaData()
meta = sa.Table("meta", metadata, sa.Column("key", Text, primary_key=True), sa.Column("value", Text, nullable=False))
host = sa.Table("host", metadata, sa.Column("key", Text, primary_key=True), sa.Column("facts", Text, nullable=False))
run = sa.Table(
    "run",
    metadata,
    sa.Column("id", Text, primary_key=True),
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("label", Text, nullable=False),
    sa.Column("host", sa.ForeignKey("host.key"), nullable=False),
    sa.Column("plan", Text, nullable=False),
    sa.Column("state", Text, nullable=False),
    sa.Column("revision", Text, nullable=False, server_default=""),
    sa.Column("beside", Text, nullable=False, server_default=""),
)
cell = sa.Table("cell", metadata, sa.Column("key", Text, primary_key=True), sa.Column("fields", Text, nullable=False))
record = sa.Table(
    "record",
    metadata,
    sa.Column("run", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("cell", sa.ForeignKey("cell.key"), primary_key=True),
    sa.Column("launch", sa.BigInteger, primary_key=True),
    sa.Column("host", sa.ForeignKey("host.key"), nullable=False),  # with the cell it is the series
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("spans", sa.LargeBinary, nullable=False),  # int64, little-endian
    sa.Column("measurement", Text, nullable=False),  # JSON, without the spans
    sa.Index("record_by_series", "host", "cell", "started"),
)
mark = sa.Table(
    "mark",
    metadata,
    sa.Column("run", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("cell", Text, nullable=False),
    sa.Column("launch", sa.BigInteger, nullable=False),
    sa.Column("boot_id", Text, nullable=False),
)


def ensure(database: Database, *, make: bool) -> None:
    """Make the tables where there are none, bring older ones up to date, and refuse what isn't ours or comes from the future.

    Nothing is written before the store is known to be one of ours, nor without ``make`` where there is none. Raises StoreError.
    """
    if not (tables := database.tables()):
        if not make:
            raise database.missing()
        with database.writing(alone=True) as db:  # whole or not at all, and not twice at once
            metadata.create_all(db)
            db.execute(database.insert(meta).values(key="schema", value=str(VERSION)).on_conflict_do_nothing())
        database.settle()
        return
    if "meta" not in tables:
        raise StoreError(f"{database.name} is a database of something else; give --store another place.")
    with database.reading() as db:
        found = _version(db)
    if found > VERSION:
        raise StoreError(
            f"The store {database.name} was written by a newer metalbench (schema {found}, this one knows {VERSION}); "
            "upgrade metalbench or give --store another place."
        )
    if found < VERSION:
        with database.writing(alone=True) as db:
            for version in range(_version(db) + 1, VERSION + 1):  # asked again: another program may have been faster
                for statement in UPGRADES[version]:
                    db.execute(sa.text(statement))
            db.execute(meta.update().where(meta.c.key == "schema").values(value=str(VERSION)))


def _version(db: sa.Connection) -> int:
    found: str = db.execute(sa.select(meta.c.value).where(meta.c.key == "schema")).scalar_one()
    return int(found) if found.isdecimal() else VERSION + 1  # of nobody we know
