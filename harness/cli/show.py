"""``bench show``: the tables of a run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.output import print_run


class Format(StrEnum):
    text = "text"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    html = "html"


def show(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="A run's id or label, latest, latest~1 …")] = "latest",
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.text,  # noqa: A002 - the option's name
    relative_to: Annotated[str | None, typer.Option(metavar="BACKEND", help="Ratios to this backend instead of to the best.")] = None,
    store: context.StoreOption = None,
) -> None:
    """Print a run's tables: time, memory, and what did not run and why."""
    ctx = context.load()
    if relative_to is not None:
        ctx.catalog.backend(relative_to)
    with context.opened_store(store, ctx.config) as results:
        this = results.run(run)
        records = results.records(this.id)
    print_run(this, records, ctx.catalog, format.value, relative_to)
