"""``bench store``: stores as a whole."""

from __future__ import annotations

from typing import Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.output import counted
from metalbench.harness.errors import UsageError

app = typer.Typer(help="Move results between stores.", no_args_is_help=True, rich_markup_mode=None)

PLACE = "A file or a database URL"


@app.callback()
def store() -> None:
    """Move results between stores."""


@app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"{PLACE}.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help=f"{PLACE}; what isn't there is made.")],
) -> None:
    """Copy every run with its records as they are stored. What is in TARGET already is not stored twice.

    A run is copied whole or not at all: after an interruption the same command does the rest.
    """
    import rich.console
    import rich.progress

    from metalbench.results import copying

    with context.opened(source, make=False) as ours, context.opened(target) as theirs:
        if ours.database.address == theirs.database.address:
            raise UsageError(f"{ours.database.name} can't be copied into itself; name another store.")
        terminal = rich.console.Console(stderr=True)
        runs = rich.progress.track(
            copying.runs(ours.database), "copying", console=terminal, transient=True, disable=not terminal.is_terminal
        )
        copied = [copying.copy(run, ours.database, theirs.database) for run in runs]
        records, new = sum(run.records for run in copied), sum(run.new for run in copied)
        print(f"{ours.database.name} → {theirs.database.name}: {counted(len(copied), 'run')}, {counted(records, 'record')}, {new} new")
