"""``bench compare``: what changed between two runs, where that is sure."""

from __future__ import annotations

import math
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.output import naming, print_json, print_report, write_whole
from metalbench.harness.cli.references import HOW, measured
from metalbench.harness.cli.selection import BackendOption, CaseOption, VariantOption, WorkloadOption, selection
from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    from metalbench.harness.catalog import Catalog
    from metalbench.results.comparison import Comparison


class Format(StrEnum):
    text = "text"
    markdown = "markdown"
    json = "json"


ThresholdOption = Annotated[float, typer.Option(metavar="PERCENT", min=0.0, max=1000.0, help="A smaller change of the median is no news.")]
FailOnOption = Annotated[
    list[str] | None, typer.Option(metavar="WHAT", help="Exit with status 1 for slower, larger, wrong, crashed … [repeatable]")
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
SvgOption = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Also draw the intervals.")]


def compare(
    base: Annotated[str, typer.Argument(metavar="BASE", help=HOW)],
    candidate: Annotated[str, typer.Argument(metavar="[CANDIDATE]", help="The same.")] = "latest",
    workload: WorkloadOption = None,
    backend: BackendOption = None,
    case: CaseOption = None,
    variant: VariantOption = None,
    threshold: ThresholdOption = 3.0,
    across: Annotated[bool, typer.Option("--across", help="Though machine, version, precision policy or protocol differ.")] = False,
    fail_on: FailOnOption = None,
    format: FormatOption = Format.text,  # noqa: A002 - the option's name
    svg: SvgOption = None,
    store: context.StoreOption = None,
) -> None:
    """Say of each cell whether the candidate is slower, faster or the same, where that is sure.

    Both runs need launches enough: from five a side, ten see a change of 5 %. On a noisy machine `bench ab` tells more in less time.
    """
    from metalbench.results import comparison

    failing = failures(fail_on)
    check(threshold, svg)
    ctx = context.load()
    with context.opened_store(store, ctx.config) as results:
        sides = [measured(name, results) for name in (base, candidate)]
    wanted = selection(workload, backend, case, variant)
    try:
        found = comparison.compare(sides[0], sides[1], wanted=wanted, threshold=threshold / 100, across=across)
    except comparison.IncomparableError as error:
        raise UsageError(str(error)) from error
    print_comparison(found, ctx.catalog, format, svg, failing)
    conclude(found, ctx.catalog, failing)


def conclude(found: Comparison, catalog: Catalog, failing: frozenset[str]) -> NoReturn:
    """Exit with 1 if something is as ``--fail-on`` says, else 0. UsageError where something was not compared, which is not "equal"."""
    if found.missing or not found.changes:
        raise UsageError(_missing(found, catalog))
    if not any(change.time or change.base.status != change.candidate.status for change in found.changes):
        reason = next(change.candidate.reason or change.candidate.status for change in found.changes)
        raise UsageError(f"Nothing was timed on both sides, so that nothing was compared ({reason}); see `bench doctor`.")
    sys.exit(int(any(change.outcomes() & failing for change in found.changes)))


def check(threshold: float, svg: Path | None) -> None:
    """UsageError for what would only be found out when all is measured."""
    if math.isnan(threshold):
        raise UsageError("--threshold nan is no percentage; give one such as 3.")
    if svg is not None and (svg.is_dir() or not svg.absolute().parent.is_dir()):
        raise UsageError(f"{svg} can't be written: give --svg a file in a folder that is there.")


def failures(fail_on: list[str] | None) -> frozenset[str]:
    """What ``--fail-on`` names: verdicts on time and memory, and statuses. UsageError for anything else."""
    from metalbench.harness.errors import unknown
    from metalbench.results.record import GRAVITY

    named = context.split(fail_on)
    known = ("slower", "faster", "larger", "smaller", *(status for status in reversed(GRAVITY) if status != "ok"))
    for name in named:
        if name not in known:
            raise unknown("outcome for --fail-on", name, known)
    return frozenset(named)


def print_comparison(found: Comparison, catalog: Catalog, format: Format, svg: Path | None, failing: frozenset[str]) -> None:  # noqa: A002 - as the option is called
    """On standard output; on GitHub the findings as annotations too, on standard error."""
    from metalbench.results import comparison_report

    names = naming(catalog)
    if format == Format.json:
        print_json(comparison_report.data(found, names))
    else:
        print_report(comparison_report.report(found, names), format.value)
    if svg is not None:
        from metalbench.results.charts import intervals
        from metalbench.results.charts.render import render

        write_whole(svg, [render(intervals.figure(found, names), "svg")], "the comparison is printed all the same")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        sys.stdout.flush()
        for line in comparison_report.github_annotations(found.changes, names, failing):
            print(line, file=sys.stderr)


def _missing(found: Comparison, catalog: Catalog) -> str:
    """A cell that only one side has was not found equal: it was not compared."""
    if not found.missing:
        return f"Runs {found.base.id} and {found.candidate.id} have no cell that these options admit; leave one out."
    from metalbench.results.layout import full_name

    names = [f"{full_name(cell, naming(catalog))} ({side})" for cell, side in found.missing]
    shown = "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"{len(names)} cells were not measured on both sides, so not compared: {shown}; measure them, or choose what both have by "
        "--workload, --backend, --case, --variant."
    )
