"""``bench plot``: a chart of the dashboard as a file, for a README or a paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.output import naming, write_whole
from metalbench.harness.cli.references import HOW, measured
from metalbench.harness.cli.selection import BackendOption, CaseOption, VariantOption, WorkloadOption, selection
from metalbench.harness.errors import UsageError, unknown

if TYPE_CHECKING:
    from metalbench.results.charts.figure import Figure
    from metalbench.results.charts.render import Format
    from metalbench.results.layout import Naming
    from metalbench.results.record import Cell, Record, Run
    from metalbench.results.store import Store

T = TypeVar("T")
Wanted = Callable[["Cell"], bool]
NAMED = 3  #: of what there are too many of, in an error


def plot(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="heatmap, scaling, roofline; distribution, sequence or history of one cell; intervals.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Its ending, .svg or .png, says as what.")],
    run: Annotated[str, typer.Argument(metavar="[RUN]", help=HOW)] = "latest",
    base: Annotated[
        str | None, typer.Option(metavar="RUN", help="What intervals hold the run against, named alike.", show_default=False)
    ] = None,
    workload: WorkloadOption = None,
    backend: BackendOption = None,
    case: CaseOption = None,
    variant: VariantOption = None,
    across: Annotated[bool, typer.Option("--across", help="Intervals though machine, version, policy or protocol differ.")] = False,
    store: context.StoreOption = None,
) -> None:
    """Draw a chart of a run as SVG or PNG, without a browser.

    A history is that of the store, on the machine of the run.
    """
    from metalbench.results.charts import kinds
    from metalbench.results.charts.render import render

    if name not in kinds.NAMES:
        raise unknown("chart", name, kinds.NAMES)
    ending = _format(output)
    if name in kinds.OF_PAIRS and base is None:
        raise UsageError(f"{name} hold a run against another; name that by --base.")
    if name not in kinds.OF_PAIRS and (base is not None or across):
        raise UsageError(f"{name} is of one run; leave --base and --across to {' and '.join(kinds.OF_PAIRS)}.")
    ctx = context.load()
    wanted = selection(workload, backend, case, variant)
    with context.opened_store(store, ctx.config) as results:
        this = measured(run, results)
        if base is not None:
            figure = _of_pair(name, measured(base, results), this, wanted, naming(ctx.catalog), across=across)
        elif name in kinds.OF_SERIES:
            figure = _of_series(name, results, this[0], wanted, naming(ctx.catalog))
        else:
            figure = _of_run(name, this, wanted, naming(ctx.catalog))
    write_whole(output, [render(figure, ending)], "name a file in a folder that is there")
    print(f"{output}: {figure.title}")


def _format(output: Path) -> Format:
    from metalbench.results.charts.render import FORMATS

    for ending in FORMATS:
        if output.suffix.lower() == f".{ending}":
            return ending
    raise UsageError(f"{output} says by its ending not as what to draw; let it end in {' or '.join(f'.{ending}' for ending in FORMATS)}.")


def _of_run(name: str, this: tuple[Run, Sequence[Record]], wanted: Wanted, names: Naming) -> Figure:
    from metalbench.results.charts import kinds
    from metalbench.results.layout import full_name
    from metalbench.results.summary import summarise

    every = summarise(*this)
    chosen = [summary for summary in every if wanted(summary.cell)]
    if not any(summary.medians for summary in chosen):
        raise UsageError(f"Run {this[0].id} has timed no cell that these options admit; `bench show` says what it has.")
    if name in kinds.OF_RUNS:
        figures = kinds.OF_RUNS[name](chosen, names, every)
        if not figures:
            raise UsageError(
                f"For {name} run {this[0].id} lacks cells that differ in their sizes alone; admit more, or measure more cases."
            )
        return _single(figures, lambda figure: figure.title, "charts")
    timed = [summary for summary in chosen if summary.medians]
    summary = _single(timed, lambda summary: full_name(summary.cell, names), "cells")
    figure = kinds.OF_CELLS[name](summary)
    return figure._replace(title=f"{full_name(summary.cell, names)}. {figure.title}")


def _of_series(name: str, results: Store, this: Run, wanted: Wanted, names: Naming) -> Figure:
    from metalbench.results.charts import kinds
    from metalbench.results.history import History
    from metalbench.results.layout import full_name
    from metalbench.results.machines import same_machine
    from metalbench.results.series import series

    hosts = [host for host in results.hosts() if same_machine(host, this.host)]
    found = [History(cell, points) for cell, points in series(results.database, hosts, wanted)]
    if not found:
        raise UsageError(
            f"The store has no series of the machine of run {this.id} that these options admit; `bench history` shows what it has."
        )
    return kinds.OF_SERIES[name](_single(found, lambda history: full_name(history.cell, names), "series"), names)


def _of_pair(
    name: str, base: tuple[Run, Sequence[Record]], candidate: tuple[Run, Sequence[Record]], wanted: Wanted, names: Naming, *, across: bool
) -> Figure:
    from metalbench.results import comparison
    from metalbench.results.charts import kinds

    try:
        found = comparison.compare(base, candidate, wanted=wanted, across=across)
    except comparison.IncomparableError as error:
        raise UsageError(str(error)) from error
    if not any(change.time for change in found.changes):
        raise UsageError(
            f"Runs {found.base.id} and {found.candidate.id} have timed no cell both that these options admit; see `bench compare`."
        )
    return kinds.OF_PAIRS[name](found, names)


def _single(found: Sequence[T], name: Callable[[T], str], kind: str) -> T:
    """The only one. UsageError where a file can't hold them all."""
    if len(found) == 1:
        return found[0]
    shown = "; ".join(map(name, found[:NAMED])) + (f" and {len(found) - NAMED} more" if len(found) > NAMED else "")
    raise UsageError(f"These options admit {len(found)} {kind}: {shown}; choose one by --workload, --case, --backend and --variant.")
