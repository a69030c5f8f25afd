"""``bench show``: the tables of a run."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.output import print_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metalbench.results.record import Record, Run


class Format(StrEnum):
    text = "text"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    html = "html"


def show(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="A run's id or label, latest, latest~1 …")] = "latest",
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.text,  # noqa: A002 - the option's name
    relative_to: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Ratios to this backend or column instead of to the best.")
    ] = None,
    store: context.StoreOption = None,
) -> None:
    """Print a run's tables: time, memory, and what did not run and why."""
    ctx = context.load()
    with context.opened_store(store, ctx.config) as results:
        this = results.run(run)
        records = results.records(this.id)
    if relative_to is not None:
        _known_column(relative_to, this, records, ctx)
    print_run(this, records, ctx.catalog, format.value, relative_to)


def _known_column(name: str, run: Run, records: Sequence[Record], ctx: context.Context) -> None:
    """UsageError unless the run has such a column, by its heading or its backend's name."""
    from metalbench.harness.errors import UsageError, unknown
    from metalbench.results.summary import summarise

    columns = {summary.column: summary.cell.backend for summary in summarise(run, records)}
    named = [column for column, backend in columns.items() if name in {column, backend}]
    if not named:
        raise unknown("column", name, columns) if columns else unknown("backend", name, ctx.catalog.backends)
    if len(named) > 1:
        raise UsageError(f"Run {run.id} has {name} in several environments: name one of the columns {', '.join(map(repr, named))}.")
