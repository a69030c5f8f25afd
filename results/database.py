"""The connection to a store: SQLite in a file or PostgreSQL by URL, durable, and every failure one sentence."""

from __future__ import annotations

import sqlite3
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

#: the databases a store can be in, and how each inserts what may be there already
INSERT: dict[str, Callable[[sa.Table], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
REMEDY = "give a file, or a sqlite:/// or postgresql:// URL"


class StoreError(Exception):
    """The store can't be used as asked; the message is one sentence that names it and the remedy."""


class Database:
    """An engine and the name it goes by in messages. Every method may raise StoreError."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        self._engine, self.name = engine, name
        self.insert = INSERT[engine.dialect.name]

    def close(self) -> None:
        self._engine.dispose()

    def tables(self) -> set[str]:
        with self.transaction() as db:
            return set(sa.inspect(db).get_table_names())

    @contextmanager
    def transaction(self, *, writing: bool = False) -> Iterator[sa.Connection]:
        try:
            with self._engine.execution_options(writing=writing).begin() as db:
                yield db
        except (SQLAlchemyError, msgspec.DecodeError, struct.error) as error:
            raise StoreError(_sentence(self.name, error)) from error

    def write_ahead(self) -> None:
        """SQLite: readers beside the writer, a mode that stays with the file and can't be set in a transaction.

        Another program that opens the new store holds it for a moment, and for that SQLite does not wait by itself.
        """
        if self._engine.dialect.name != "sqlite":
            return
        with closing(self._engine.raw_connection()) as connection:
            for _ in range(100):
                with suppress(sqlite3.OperationalError):
                    connection.cursor().execute("PRAGMA journal_mode = WAL")
                    return
                time.sleep(0.02)


def connect(place: str) -> Database:
    """The database at ``place``, a file's path or a URL; a file's folder is made if it isn't there. Raises StoreError."""
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
    return Database(engine, name)


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
