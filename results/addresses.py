"""From what a user calls a store to its database: a file's path, or a URL."""

from __future__ import annotations

import re
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from metalbench.results.database import Database, StoreError
from metalbench.results.postgresql import PostgreSQL
from metalbench.results.sqlite import SQLite

KINDS: dict[str, type[Database]] = {
    "sqlite": SQLite,
    "sqlite+pysqlite": SQLite,
    "postgresql": PostgreSQL,
    "postgresql+psycopg": PostgreSQL,
}
REMEDY = "give a file, or a sqlite:/// or postgresql:// URL"


def connect(place: str, *, make: bool = True) -> Database:
    """The database at ``place``. Without ``make``, StoreError where there is none; and where the place can't be one."""
    try:
        url = sa.make_url(place) if "://" in place else sa.URL.create("sqlite", database=str(Path(place).expanduser().absolute()))
    except (ArgumentError, ValueError):
        raise StoreError(f"The store {_without_password(place)!r} is not a place that can be opened; {REMEDY}.") from None
    if url.drivername not in KINDS:
        raise StoreError(f"The store {_without_password(place)} is of a kind metalbench does not use; {REMEDY}.")
    return KINDS[url.drivername].at(url, make=make)


def _without_password(place: str) -> str:
    """Of what may be no URL at all: without everything that may be a user's name and password, and without parameters."""
    return re.sub(r"://.*@", "://", place, flags=re.DOTALL).partition("?")[0]
