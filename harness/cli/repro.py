"""``bench repro``: a cell as a script of its own, to attach to a bug report."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.output import write_whole
from metalbench.harness.cli.references import HOW, measured
from metalbench.harness.cli.selection import BackendOption, CaseOption, VariantOption, WorkloadOption, selection
from metalbench.harness.errors import UsageError
from metalbench.results.quantities import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metalbench.results.record import Cell, Record, Run
    from metalbench.results.store import Store

KEY = re.compile(r"[0-9a-f]{20}")
SHOWN = 3


def repro(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help=f"{HOW} Or a cell's key: of the newest run that has it.")] = "latest",
    workload: WorkloadOption = None,
    backend: BackendOption = None,
    case: CaseOption = None,
    variant: VariantOption = None,
    cell: Annotated[str | None, typer.Option("--cell", metavar="KEY", help="The one of this key: see its page's address.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there instead of printing it.")] = None,
    store: context.StoreOption = None,
) -> None:
    """Write a script that does a cell's work in its framework and times it, with nothing of metalbench in it, for a bug report.

    It needs the framework and NumPy. Its inputs are drawn anew, of the same shapes, types and distribution.
    """
    from metalbench.harness.repro.script import script
    from metalbench.results.summary import summarise

    ctx = context.load()
    wanted = selection(workload, backend, case, variant)
    with context.opened_store(store, ctx.config) as results:
        this, records, key = _found(run, cell, results)
    admitted = [record for record in records if wanted(record.cell) and key in {"", record.cell.key()}]
    summaries = summarise(this, admitted)
    if len(summaries) != 1:
        raise UsageError(_not_one(this, [summary.cell for summary in summaries]))
    text = script(this, summaries[0], ctx.catalog, ctx.recipes, output.name if output is not None else "repro.py")
    if output is None:
        sys.stdout.write(text)
    else:
        write_whole(output, [text.encode()], "give --output another place")


def _found(name: str, cell: str | None, results: Store) -> tuple[Run, list[Record], str]:
    """The run with its records, and the key of the cell if one was given, in the place of the run or beside it."""
    if KEY.fullmatch(name) and cell is None and results.find(name) is None:
        for run in results.runs():
            if records := results.records(run.id, name):
                return results.run(run.id), records, name
        raise UsageError(f"No run of this store has a cell with the key {name}; a cell's page in the dashboard has it in its address.")
    return *measured(name, results), cell or ""


def _not_one(run: Run, cells: Sequence[Cell]) -> str:
    """That nothing or too much is meant, and which options would leave one cell."""
    if not cells:
        return f"Run {run.id} has no cell that these options admit; `bench show {run.id}` shows what it has."
    workloads = _values(cell.workload for cell in cells)
    parameters = dict.fromkeys(name for cell in cells for name in cell.case) if len(workloads) == 1 else ()  # not each has the same
    values = {f"{name}=": _values(str(cell.case.get(name)) for cell in cells) for name in parameters}
    ways = {
        "--workload": workloads,
        "--case": [f"{name}{_shown(words, '|')}" for name, words in values.items() if len(words) > 1],
        "--backend": _values(cell.backend for cell in cells),
        "--variant": _values(cell.variant for cell in cells),
    }
    telling = [f"{option} ({_shown(words, ', ')})" for option, words in ways.items() if len(words) > (option != "--case")]
    if not telling:  # environments tell them apart
        telling = [f"--cell ({_shown([f'{cell.key()} in {printable(cell.environment)}' for cell in cells], ', ')})"]
    return f"{len(cells)} cells of run {run.id} are meant; choose one by {' and '.join(telling)}."


def _values(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(printable, words)))


def _shown(words: Sequence[str], between: str) -> str:
    """The first few."""
    return between.join([*words[:SHOWN], *(["…"] if len(words) > SHOWN else [])])
