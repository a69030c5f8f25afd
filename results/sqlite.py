"""A store in a file: SQLite, one writer at a time, readers beside it."""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from metalbench.results.database import Database, StoreError


class SQLite(Database):
    @classmethod
    def at(cls, url: sa.URL, *, make: bool) -> Self:
        """The file's folder is made too where it isn't there."""
        file = Path(url.database or "")
        found = cls(sa.create_engine(url, connect_args={"timeout": 30}), str(file), (file.resolve(),))
        if not make and not file.is_file():
            raise found.missing()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"The store {found.name} can't be made: {error.strerror}; give --store another place.") from error
        sa.event.listen(found._engine, "connect", _settle)
        sa.event.listen(found._engine, "begin", _begin)
        return found

    @staticmethod
    def insert(table: sa.Table) -> sqlite.Insert:
        return sqlite.insert(table)

    def reading(self) -> AbstractContextManager[sa.Connection]:
        return self._transaction()

    def writing(self, *, alone: bool = False) -> AbstractContextManager[sa.Connection]:  # noqa: ARG002 - a writer always is
        return self._transaction(writing=True)

    def settle(self) -> None:
        """Readers beside the writer, a mode that stays with the file and can't be set in a transaction.

        Another program that opens the new store holds it for a moment, and for that SQLite does not wait by itself.
        """
        with closing(self._engine.raw_connection()) as connection:
            for _ in range(100):
                with suppress(sqlite3.OperationalError):
                    connection.cursor().execute("PRAGMA journal_mode = WAL")
                    return
                time.sleep(0.02)

    def _error(self, what: str) -> StoreError:
        if any(words in what for words in ("readonly", "unable to open", "read-only", "disk I/O", "is full")):
            return StoreError(f"The store {self.name} can't be written ({what}); give --store a place that you may write to.")
        if "locked" in what:
            return StoreError(f"The store {self.name} is in use by another program ({what}); wait for it to end.")
        if any(words in what for words in ("not a database", "malformed", "no such", "corrupt")):
            return self._damaged(what)
        return self._unusable(what)


def _settle(connection: Any, _: object) -> None:
    """Transactions are ours to begin, and a commit is on the disk when it returns, also on macOS."""
    connection.isolation_level = None
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    if sys.platform == "darwin":
        connection.execute("PRAGMA fullfsync = ON")


def _begin(connection: sa.Connection) -> None:
    """The driver would leave statements that make tables outside of any transaction."""
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writing") else "BEGIN")
