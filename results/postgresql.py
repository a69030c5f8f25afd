"""A store on a server: PostgreSQL, many writers at a time. A server that goes away for a while costs no record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, OperationalError

from metalbench.results.database import Database, StoreError

T = TypeVar("T")

DRIVER = "postgresql+psycopg"
#: A server that can't be reached, or can't be any more, is noticed within half a minute; what the URL says goes before.
LINK = {"connect_timeout": "10", "keepalives_idle": "15", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "30000"}
SECRETS = ("password", "sslpassword")  #: of a URL's parameters
LOCK = 0x6D6574616C  #: under which tables are made and upgraded, for nobody to do it twice at once: "metal"
PATIENCE = 300.0  #: seconds for which a server that went away is waited for
#: Classes of SQLSTATE that pass: connections, conflicts with other writers, an operator's intervention; and too many connections.
PASSING = ("08", "40", "57", "53300")
#: What the server says → what it means and what to do
REMEDIES = {
    "invalid connection option": "has a parameter in its URL that PostgreSQL does not know; correct it",
    "authentication failed": "refuses this user or password; correct them in the URL, in PGPASSWORD or in ~/.pgpass",
    "no password supplied": "wants a password; put it into the URL, PGPASSWORD or ~/.pgpass",
    "no pg_hba.conf entry": "admits no such connection; add a line for it to pg_hba.conf on the server",
    "does not exist": "does not exist; make the user and the database first, with createuser and createdb",
    "permission denied": "can't be used by this user; have the database's owner grant it to you",
    "read-only": "can't be written; name the primary server",
    "connection": "can't be reached; see that the server runs and that the address is right",
}


class PostgreSQL(Database):
    @classmethod
    def at(cls, url: sa.URL, *, make: bool) -> Self:  # noqa: ARG003 - the database is its owner's to make
        name = url.difference_update_query(SECRETS).render_as_string()
        linked = url.set(drivername=DRIVER, query={**LINK, **url.query, "client_encoding": "utf8"})
        try:
            engine = sa.create_engine(linked, pool_pre_ping=True, execution_options={"preserve_rowcount": True})
        except ImportError as error:
            raise StoreError(f"The store {name} needs PostgreSQL's driver, `pip install 'metalbench[fleet]'` ({error}).") from None
        server = (url.host or url.query.get("host"), url.port or url.query.get("port", 5432))
        found = cls(engine, name, (*server, url.database))
        sa.event.listen(engine, "connect", found._check, insert=True)  # before SQLAlchemy asks what the server is
        return found

    @staticmethod
    def insert(table: sa.Table) -> postgresql.Insert:
        return postgresql.insert(table)

    def reading(self) -> AbstractContextManager[sa.Connection]:
        return self._transaction(isolation_level="REPEATABLE READ")

    @contextmanager
    def writing(self, *, alone: bool = False) -> Iterator[sa.Connection]:
        with self._transaction(isolation_level="READ COMMITTED") as db:
            if alone:
                db.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
            yield db

    def durably(self, action: Callable[[sa.Connection], T]) -> T:
        """Waits for a server that went away, ``PATIENCE`` seconds at most, and does it again."""
        deadline, pause = time.monotonic() + PATIENCE, 0.1
        while True:
            try:
                return super().durably(action)
            except StoreError as error:
                if not _passing(error.__cause__) or time.monotonic() > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    def settle(self) -> None:
        """Nothing: what a connection wants is the same before and after."""

    def _check(self, connection: Any, _: object) -> None:
        """Any text can be kept, and a commit is on the server's disk when it returns, whatever its configuration is."""
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            connection.close()
            raise StoreError(
                f"The store {self.name} is in a database that can't hold every text (its encoding is {encoding}); "
                "make one with `createdb --encoding UTF8 --template template0`."
            )
        connection.autocommit = True  # else the setting would go with the first transaction that is rolled back
        connection.execute("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
        connection.autocommit = False

    def _error(self, what: str) -> StoreError:
        if what.startswith(("relation", "column")):
            return self._damaged(what)
        for words, remedy in REMEDIES.items():
            if words in what:
                return StoreError(f"The store {self.name} {remedy} ({what}).")
        return self._unusable(what)


def _passing(error: BaseException | None) -> bool:
    """Whether it may be gone in a while: the connection broke, there was none, or another writer was in the way."""
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or (isinstance(error, OperationalError) and (state is None or state.startswith(PASSING)))
