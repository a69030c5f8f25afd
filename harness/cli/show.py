"""``bench show``: the tables of a run, or of several side by side."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.output import print_runs
from metalbench.harness.cli.references import HOW, all_measured

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
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help=f"{HOW}  [default: latest]")] = None,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.text,  # noqa: A002 - the option's name
    relative_to: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Ratios to this backend or column instead of to the best.")
    ] = None,
    store: context.StoreOption = None,
) -> None:
    """Print a run's tables: time, memory, and what did not run and why. Several runs stand side by side, machine by machine."""
    ctx = context.load()
    with context.opened_store(store, ctx.config) as results:
        named = [found for name in runs or ["latest"] for found in all_measured(name, results)]
    chosen = _each_once(named)
    if relative_to is not None:
        _known_column(relative_to, chosen, ctx)
    print_runs(chosen, ctx.catalog, format.value, relative_to)


def _each_once(named: Sequence[tuple[Run, Sequence[Record]]]) -> list[tuple[Run, Sequence[Record]]]:
    """A run may have been named twice, or be in the store and in a file."""
    from metalbench.harness.errors import UsageError

    found: dict[str, tuple[Run, Sequence[Record]]] = {}
    for run, records in named:
        known, _ = found.setdefault(run.id, (run, records))
        if known.host.key != run.host.key:
            raise UsageError(f"Two machines have a run called {run.id}, which can't stand side by side; show one at a time.")
    return list(found.values())


def _known_column(name: str, runs: Sequence[tuple[Run, Sequence[Record]]], ctx: context.Context) -> None:
    """UsageError unless there is such a column, by its heading, or one alone of the backend with that name."""
    from metalbench.harness.errors import UsageError, unknown
    from metalbench.results.summary import named_by_machine, summarise

    sides = named_by_machine([(run, summarise(run, records)) for run, records in runs])
    columns = {summary.column: summary.cell.backend for _, own in sides for summary in own}
    named = [column for column, backend in columns.items() if name in {column, backend}]
    if not named:
        raise unknown("column", name, columns) if columns else unknown("backend", name, ctx.catalog.backends)
    if len(named) > 1:
        what = f"Run {runs[0][0].id} has {name} in several environments" if len(runs) == 1 else f"There are several columns of {name}"
        raise UsageError(f"{what}: name one of the columns {', '.join(map(repr, named))}.")
