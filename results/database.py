"""A store's database as its tables need it: views of it, changes to it, and every failure one sentence."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

T = TypeVar("T")


class StoreError(Exception):
    """The store can't be used as asked; the message is one sentence that names it and the remedy."""


class Database(ABC):
    """An engine and the name it goes by in messages, which holds no password. Every method may raise StoreError."""

    def __init__(self, engine: sa.Engine, name: str, address: tuple[object, ...]) -> None:
        """``address``: what two names of one database have in common, as far as that can be told from them."""
        self._engine, self.name, self.address = engine, name, address

    @classmethod
    @abstractmethod
    def at(cls, url: sa.URL, *, make: bool) -> Self:
        """The database with this address, and with ``make`` what is needed before its tables can be made."""

    @staticmethod
    @abstractmethod
    def insert(table: sa.Table) -> Any:
        """A statement that knows ``on_conflict_do_nothing``."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[sa.Connection]:
        """As it is at one moment, whatever others write meanwhile."""

    @abstractmethod
    def writing(self, *, alone: bool = False) -> AbstractContextManager[sa.Connection]:
        """Changes that are made whole or not at all, and durable at the end. ``alone``: nobody else is in such a one meanwhile."""

    def durably(self, action: Callable[[sa.Connection], T]) -> T:
        """Its answer, once its changes are made and durable; they must be such as may be made twice."""
        with self.writing() as db:
            return action(db)

    @abstractmethod
    def settle(self) -> None:
        """Do what a store wants once its tables are made."""

    def close(self) -> None:
        self._engine.dispose()

    def tables(self) -> set[str]:
        with self.reading() as db:
            return set(sa.inspect(db).get_table_names())

    def missing(self) -> StoreError:
        return StoreError(f"There is no store {self.name}; name one that is there.")

    @contextmanager
    def _transaction(self, **options: Any) -> Iterator[sa.Connection]:
        try:
            with self._engine.execution_options(**options).begin() as db:
                yield db
        except (msgspec.DecodeError, struct.error) as error:
            raise self._damaged(error) from error
        except SQLAlchemyError as error:
            what = " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())
            raise self._error(what) from error

    @abstractmethod
    def _error(self, what: str) -> StoreError:
        """What the driver said, with a remedy."""

    def _damaged(self, what: object) -> StoreError:
        return StoreError(
            f"The store {self.name} is damaged or not a metalbench store ({what}); give --store another place or restore it from a copy."
        )

    def _unusable(self, what: str) -> StoreError:
        return StoreError(f"The store {self.name} can't be used ({what}); see that it is reachable, or give --store another place.")
