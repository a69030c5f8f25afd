"""``bench run``: measure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.fleet import TlsOption
from metalbench.harness.cli.fleet_run import Where
from metalbench.harness.cli.options import Given
from metalbench.harness.cli.output import print_plan, print_runs, write_json
from metalbench.harness.cli.planning import UNFINISHED, begin, interrupted, planned, resumed
from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    from metalbench.harness.plan import Capabilities, Plan
    from metalbench.results.record import Record, Run
    from metalbench.results.store import Store


class Protocol(StrEnum):
    latency = "latency"
    throughput = "throughput"
    latency_cold = "latency-cold"
    throughput_cold = "throughput-cold"


class FailOn(StrEnum):
    wrong = "wrong"


def run(
    suite: Annotated[
        str | None, typer.Option(metavar="NAME", help="quick (default), standard, large or documents.", show_default=False)
    ] = None,
    backend: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only these, such as torch-mps,mlx-metal. [repeatable]")] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="[ID:]ENV", help="Where a backend runs: see above. [repeatable]")] = None,
    workload: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these; some are measured only where they are named. [repeatable]")
    ] = None,
    case: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only cases with this parameter. [repeatable]")] = None,
    variant: Annotated[list[str] | None, typer.Option(metavar="NAME", help="These variants instead of the suite's. [repeatable]")] = None,
    kernel: Annotated[list[Path] | None, typer.Option(metavar="FOLDER", help="A kernel of your own: see above. [repeatable]")] = None,
    protocol: Annotated[Protocol, typer.Option(help="Wait after every call, or once for many; caches warm, or cold.")] = Protocol.latency,
    launches: Annotated[int | None, typer.Option(min=1, help="Fresh processes per cell.", show_default="3 or 5, by suite")] = None,
    budget: Annotated[float | None, typer.Option(metavar="S", help="Seconds of sampling per cell and launch.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Fixes the order and the inputs.", show_default="order at random")] = None,
    fleet: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Measure on the machines of a fleet: see `bench fleet`.", show_default=False)
    ] = None,
    machine: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Only the machines of the fleet with such a name, chip or key.")
    ] = None,
    each: Annotated[bool, typer.Option("--each-machine/--any-machine", help="Each cell on all machines, or on one that is free.")] = True,
    tls: TlsOption = None,
    label: Annotated[str, typer.Option(metavar="TEXT", help="A name for the run, to find it by.", show_default=False)] = "",
    store: context.StoreOption = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the results as one JSON document.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="[RUN]", help="Finish a run that was interrupted, the last one by default.")] = None,
    fail_on: Annotated[list[FailOn] | None, typer.Option(help="Exit with status 1 if a cell is so.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the cells and the time expected, and measure nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Measure workloads on backends, check every answer, and keep what was found.

    A backend runs in the environment that --env names; else in one made by `bench env create`; else in the Python that runs this.
    ENV is a name of `bench env list`, a requirement such as torch-cpu:torch==2.12.1, which is made where it isn't there, or a path to
    a Python. Given several times for one backend it makes as many columns.

    --kernel measures the kernel in a folder shaped like those in kernels/ as one more variant, kernel:FOLDER, beside all others of its
    workload, and nothing else unless --workload names it; of the suite standard unless --suite does. kernels/README.md says what such a
    folder holds.
    """
    ctx = context.load()
    if json is not None and not json.absolute().parent.is_dir():
        raise UsageError(f"{json} can't be written: there is no folder {json.absolute().parent}.")
    given = Given(suite, env, backend, workload, case, variant, kernel, protocol.value, launches, budget, seed)
    if resume is not None and (dry_run or label or given != Given()):
        raise UsageError(
            "--resume finishes a run as it was planned; leave out the options that say what to measure, --label and --dry-run."
        )
    if fleet is not None:
        _check_fleet(given, json, machine, resume, each=each)
        where = Where(fleet, machine or "*", not each, tls)
        sys.exit(_on_fleet(where, given, label, ctx, store, resume, fail_on or [], dry_run=dry_run, quiet=quiet))
    if machine is not None or tls is not None or not each:
        raise UsageError("--machine, --any-machine and --tls are for --fleet ADDRESS; give it, or leave them out.")
    fresh = planned(given, ctx, make=not dry_run, quiet=quiet) if resume is None else None
    if fresh is not None and dry_run:
        print_plan(fresh[0], ctx.catalog)
        return
    with context.opened_store(store, ctx.config) as results:
        if fresh is not None:
            plan, capabilities = fresh
            this = begin(results, plan, label)
        else:
            this = interrupted(results, resume or UNFINISHED)
            plan, capabilities = resumed(this, ctx)
        measure(this, plan, capabilities, ctx, results, quiet=quiet)
        this, records = results.run(this.id), results.records(this.id)
    if json is not None:
        write_json(this, records, json)
    if not quiet:
        print_runs([(this, records)], ctx.catalog)
    sys.exit(_exit_status(records, fail_on or []))


def measure(this: Run, plan: Plan, capabilities: Capabilities, ctx: context.Context, results: Store, *, quiet: bool) -> None:
    """Measure what of a run is not in the store yet, alone on this machine and with it kept awake."""
    import tempfile

    from metalbench.harness.cli.progress import progress
    from metalbench.harness.scheduler import Scheduler
    from metalbench.harness.station import Station
    from metalbench.harness.wakefulness import awake

    with ExitStack() as held:
        held.enter_context(context.alone(quiet=quiet))
        held.enter_context(awake())
        if not quiet:
            _print_doubts()  # only now: a run that was waited for is no reason to doubt this one
        listener = held.enter_context(progress(plan, ctx.catalog, quiet=quiet))
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="metalbench-")))
        station = Station(plan.options, ctx.catalog, capabilities, folder, listener.stage, ctx.config.memory_limit)
        scheduler = Scheduler(
            plan=plan, run_id=this.id, store=results, catalog=ctx.catalog, capabilities=capabilities, station=station, listener=listener
        )
        results.become(this.id, "running")  # which one that is taken up again was not
        try:
            scheduler.run()
        except BaseException:
            results.become(this.id, "interrupted")
            if not quiet:
                print(f"\nStopped. What was finished is kept; `bench run --resume {this.id}` does the rest.", file=sys.stderr)
            raise
        results.become(this.id, "finished")


def _check_fleet(given: Given, json: Path | None, machine: str | None, resume: str | None, *, each: bool) -> None:
    """UsageError for options that mean nothing on a fleet."""
    if given.kernel:
        raise UsageError("--kernel is for this machine, where its folder is; run it on each machine, and leave out --fleet.")
    if json is not None:
        raise UsageError("--json is for one machine's run; with --fleet print all of them by `bench show RUN --format json`.")
    if resume is not None and (machine is not None or not each):
        raise UsageError("--resume finishes a run on the machines that began it; leave out --machine and --any-machine.")


def _on_fleet(
    where: Where,
    given: Given,
    label: str,
    ctx: context.Context,
    store: str | None,
    resume: str | None,
    fail_on: Sequence[FailOn],
    *,
    dry_run: bool,
    quiet: bool,
) -> int:
    """The exit status; 1 also where a machine left what was its to do."""
    from metalbench.harness.cli import fleet_run

    if dry_run:
        fleet_run.preview(where, given, ctx)
        return 0
    if resume is None:
        complete, found = fleet_run.measure(where, given, label, ctx, store, quiet=quiet)
    else:
        complete, found = fleet_run.resume(where, resume, ctx, store, quiet=quiet)
    if not quiet:
        fleet_run.show(found, ctx)
    return int(not complete) or _exit_status([record for _, records in found for record in records], fail_on)


def _print_doubts() -> None:
    """What makes a measurement on this machine worth little now, and what to do about it."""
    from metalbench.harness.conditions import conditions, doubts

    for doubt in doubts(conditions()):
        print(f"warning: {doubt.problem} {doubt.remedy}", file=sys.stderr, flush=True)


def _exit_status(records: Sequence[Record], fail_on: Sequence[FailOn]) -> int:
    from metalbench.results.record import BROKEN

    bad = BROKEN | {str(status) for status in fail_on}
    return int(any(record.measurement.status in bad for record in records))
