"""``bench list``: what there is to measure, by whom, and what has been measured."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from metalbench.harness.cli import context

app = typer.Typer(help="List workloads, backends, suites or runs.", no_args_is_help=True, rich_markup_mode=None)


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
        cases = sum(1 for workload in catalog.usual_workloads for _ in catalog.workload(workload).cases(name))
        rows.append((name, f"{cases} cases, {defaults.launches} launches, {defaults.budget:g} s a cell", defaults.about))
    _print(rows)


@app.command()
def runs(store: context.StoreOption = None, limit: Annotated[int, typer.Option(min=1, help="At most so many, newest first.")] = 20) -> None:
    """The runs in the store, newest first, with their machines where it is several machines'."""
    from metalbench.results.machines import described

    with context.opened_store(store, context.load().config) as results:
        found, hosts = results.runs(limit), {host.key: described(host) for host in results.hosts()}
    if not found:
        print("No runs yet; `bench run` makes one.")
        return
    several = len(set(hosts.values())) > 1
    rows = []
    for run in found:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started))
        rows.append((run.id, began, run.state, f"{run.records} records", *([hosts[run.host]] if several else []), run.label))
    _print(rows)


def _print(rows: Sequence[tuple[str, ...]]) -> None:
    """Plain aligned columns; labels are anybody's text, and lose what isn't printable."""
    from metalbench.results.quantities import printable

    clean = [[printable(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
    for row in clean:
        print("   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
