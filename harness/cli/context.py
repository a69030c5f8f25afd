"""What the commands have in common: the configuration, the catalog, the store, and how lists are given."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    from metalbench.harness.catalog import Catalog
    from metalbench.harness.config import Config
    from metalbench.harness.recipes import Recipes
    from metalbench.results.store import Store

StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Where results are kept: a file or a database URL. [env: BENCH_STORE]", show_default=False),
]


class Context:
    """What a command has before it knows what it is asked: ``bench.toml``, the plug-ins, and everything known by name.

    ``imports``: folders in which workers look for packages before anywhere else.
    """

    def __init__(self, config: Config, plugins: list[str], catalog: Catalog, imports: Sequence[Path] = ()) -> None:
        self.config, self.plugins, self.catalog, self.imports = config, plugins, catalog, imports

    @cached_property
    def recipes(self) -> Recipes:
        """The environments; read when a command needs them."""
        from metalbench.harness.recipes import Recipes

        return Recipes(self.config.environments, self.config.locks)


def load() -> Context:
    """``bench.toml``, and the catalog with its plug-ins and the installed ones."""
    from metalbench.harness.catalog import Catalog, installed_plugins
    from metalbench.harness.config import load_config

    config = load_config(Path.cwd())
    plugins = [*map(str, installed_plugins()), *config.plugins]
    return Context(config, plugins, Catalog([Path(plugin) for plugin in plugins]))


def store_place(given: str | None, config: Config) -> str:
    from metalbench.harness.environments import data_folder

    return given or os.environ.get("BENCH_STORE") or config.store or str(data_folder() / "results.sqlite")


@contextmanager
def opened_store(given: str | None, config: Config) -> Iterator[Store]:
    """The store named by the option, BENCH_STORE, bench.toml, or the user's data folder, in this order."""
    with opened(store_place(given, config)) as store:
        yield store


@contextmanager
def opened(place: str, *, make: bool = True) -> Iterator[Store]:
    """The store at ``place``, a file or a URL. What is wrong with it, or without ``make`` that there is none, is a UsageError."""
    from metalbench.results.store import StoreError, open_store

    try:
        with open_store(place, make=make) as store:
            yield store
    except StoreError as error:
        raise UsageError(str(error)) from error


@contextmanager
def alone(*, quiet: bool) -> Iterator[None]:
    """Hold the machine's measurement lock, and say so when another run has it."""
    import filelock

    from metalbench.harness.scheduler import measurement_lock

    lock = measurement_lock()
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        if not quiet:
            print("Another run is measuring on this machine; waiting for it to end.", file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def split(values: Iterable[str] | None) -> list[str]:
    """Options that may be repeated or comma-separated, in the order given, each once."""
    parts = [part.strip() for value in values or () for part in value.split(",")]
    return list(dict.fromkeys(part for part in parts if part))
