"""``bench export`` and ``bench import``: runs in the formats of other tools, and from one store to another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.output import counted, write_whole
from metalbench.harness.errors import UsageError, unknown


def export(
    format: Annotated[str, typer.Argument(metavar="FORMAT", help="csv, jsonl, pytest-benchmark … (a wrong one lists them all).")],  # noqa: A002 - the argument's name
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Ids or labels, latest, latest~1 …  [default: latest]")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every run of the store.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there instead of printing it.")] = None,
    store: context.StoreOption = None,
) -> None:
    """Write runs, the oldest first, in a format that other tools read, or as JSON lines, from which they can be imported again."""
    from metalbench.results import interchange
    from metalbench.results.formats.base import FormatError

    writers = interchange.formats("write")
    if format not in writers:
        raise unknown("export format", format, writers)
    if every and runs:
        raise UsageError("--all exports every run: name runs or give --all, not both.")
    with context.opened_store(store, context.load().config) as results:
        names = [summary.id for summary in results.runs()] if every else runs or ["latest"]
        if not names:
            raise UsageError("The store holds no runs yet; `bench run` makes one.")
        chosen = {run.id: run for run in map(results.run, names)}
        ordered = sorted(chosen.values(), key=lambda run: (run.started, run.id))
        try:
            pieces = writers[format].write((run, results.records(run.id)) for run in ordered)
            if output is None:
                sys.stdout.buffer.writelines(pieces)
            else:
                write_whole(output, pieces, "give --output another place")
        except FormatError as error:
            raise UsageError(str(error)) from error


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What `bench export jsonl` or another tool wrote.")],
    format: Annotated[str | None, typer.Option(metavar="NAME", help="Their format, where it doesn't show.", show_default=False)] = None,  # noqa: A002 - the option's name
    label: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A label for the runs instead of their own.", show_default=False)
    ] = None,
    store: context.StoreOption = None,
) -> None:
    """Take runs from files into the store. What a file has that is whole is kept; what is there already is not stored twice."""
    import msgspec

    from metalbench.results import interchange
    from metalbench.results.formats.base import FormatError
    from metalbench.results.quantities import printable

    readers = interchange.formats("read")
    if format is not None and format not in readers:
        raise unknown("import format", format, readers)
    sound = True
    with context.opened_store(store, context.load().config) as results:
        for file in files:
            try:
                name, reading = interchange.read(file.read_bytes(), format)
            except (FormatError, OSError) as error:
                problems = [str(error) if isinstance(error, FormatError) else f"can't be read: {error.strerror}"]
            else:
                runs = [(run if label is None else msgspec.structs.replace(run, label=label), records) for run, records in reading.runs]
                new = sum(results.receive(run, records) for run, records in runs)
                count = sum(len(records) for _, records in reading.runs)
                print(f"{file}: {name}, {counted(len(reading.runs), 'run')}, {counted(count, 'record')}, {new} new")
                problems = reading.problems or ([] if reading.runs else ["holds no results"])
            for problem in problems:
                print(f"bench: {file}: {printable(problem)}.", file=sys.stderr)
            sound = sound and not problems
    if not sound:
        raise typer.Exit(2)
