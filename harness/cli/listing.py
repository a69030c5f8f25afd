"""``bench list``: what there is to measure, by whom, and what has been measured."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from metalbench.harness.cli import context

app = typer.Typer(help="List workloads, backends, suites or runs.", no_args_is_help=True)


@app.command()
def workloads() -> None:
    """The workloads, read by name only."""
    catalog = context.load().catalog
    _print([(name, catalog.summary(name)) for name in catalog.workload_files])


@app.command()
def backends() -> None:
    """The backends this version knows, and whether this machine has their device; `bench doctor` tries them."""
    from metalbench.harness.host import accelerators

    catalog = context.load().catalog
    rows = []
    for name, (framework, _) in catalog.backends.items():
        needed = catalog.device_kind(name).accelerator
        here = "measured by default" if needed in accelerators() | {""} else f"needs a {needed} device, which this machine has not"
        rows.append((name, framework.title, here))
    _print(rows)


@app.command()
def suites() -> None:
    """The suites: how many cases of each workload, launches and seconds."""
    from metalbench.harness.plan import SUITES

    catalog = context.load().catalog
    rows = []
    for name, defaults in SUITES.items():
        cases = sum(1 for workload in catalog.workload_files for _ in catalog.workload(workload).cases(name))
        rows.append((name, f"{cases} cases, {defaults.launches} launches, {defaults.budget:g} s a cell", defaults.about))
    _print(rows)


@app.command()
def runs(store: context.StoreOption = None, limit: Annotated[int, typer.Option(min=1, help="At most so many, newest first.")] = 20) -> None:
    """The runs in the store, newest first."""
    with context.opened_store(store, context.load().config) as results:
        found = results.runs(limit)
    if not found:
        print("No runs yet; `bench run` makes one.")
        return
    _print(
        [
            (run.id, time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)), run.state, f"{run.records} records", run.label)
            for run in found
        ]
    )


def _print(rows: Sequence[tuple[str, ...]]) -> None:
    """Plain aligned columns, wrapped to the terminal; the first one is never cut."""
    table = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    table.add_column(no_wrap=True)
    for row in rows:
        table.add_row(*(_plain(text) for text in row))
    Console().print(table, markup=False)


def _plain(text: str) -> str:
    """Labels are anybody's text: no markup, no control characters."""
    from rich.markup import escape

    return escape("".join(character if character.isprintable() else "�" for character in text))
