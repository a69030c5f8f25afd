"""``bench run``: measure."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.options import Given, make_options
from metalbench.harness.cli.output import print_plan, print_run, write_json
from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    from metalbench.harness.plan import Options, Plan
    from metalbench.harness.probing import Capability
    from metalbench.results.record import Record, Run
    from metalbench.results.store import Store

UNFINISHED = "the last unfinished run"  #: what ``--resume`` alone stands for


class Protocol(StrEnum):
    latency = "latency"
    throughput = "throughput"
    latency_cold = "latency-cold"
    throughput_cold = "throughput-cold"


class FailOn(StrEnum):
    wrong = "wrong"


def run(
    suite: Annotated[str | None, typer.Option(metavar="NAME", help="quick (default), standard or large.", show_default=False)] = None,
    backend: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only these, such as torch-mps,mlx-metal. [repeatable]")] = None,
    workload: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these. [repeatable]")] = None,
    case: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only cases with this parameter. [repeatable]")] = None,
    variant: Annotated[list[str] | None, typer.Option(metavar="NAME", help="These variants instead of the suite's. [repeatable]")] = None,
    protocol: Annotated[Protocol, typer.Option(help="Wait after every call, or once for many; caches warm, or cold.")] = Protocol.latency,
    launches: Annotated[int | None, typer.Option(min=1, help="Fresh processes per cell.", show_default="3 in quick, else 5")] = None,
    budget: Annotated[float | None, typer.Option(metavar="S", help="Seconds of sampling per cell and launch.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Fixes the order and the inputs.", show_default="order at random")] = None,
    label: Annotated[str, typer.Option(metavar="TEXT", help="A name for the run, to find it by.", show_default=False)] = "",
    store: context.StoreOption = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the results as one JSON document.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="[RUN]", help="Finish a run that was interrupted, the last one by default.")] = None,
    fail_on: Annotated[list[FailOn] | None, typer.Option(help="Exit with status 1 if a cell is so.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the cells and the time expected, and measure nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Measure workloads on backends, check every answer, and keep what was found."""
    ctx = context.load()
    if json is not None and not json.absolute().parent.is_dir():
        raise UsageError(f"{json} can't be written: there is no folder {json.absolute().parent}.")
    given = Given(suite, backend, workload, case, variant, protocol.value, launches, budget, seed)
    if resume is not None and (dry_run or label or given != Given()):
        raise UsageError(
            "--resume finishes a run as it was planned; leave out the options that say what to measure, --label and --dry-run."
        )
    fresh = _planned(make_options(given, ctx), ctx) if resume is None else None
    if fresh is not None and dry_run:
        print_plan(fresh[0], ctx.catalog)
        return
    with context.opened_store(store, ctx.config) as results:
        if fresh is not None:
            plan, capabilities = fresh
            this = _begin(results, plan, label)
        else:
            this = _interrupted(results, resume or UNFINISHED)
            plan, capabilities = _resumed(this, ctx)
        _measure(this, plan, capabilities, ctx, results, quiet=quiet)
        this, records = results.run(this.id), results.records(this.id)
    if json is not None:
        write_json(this, records, json)
    if not quiet:
        print_run(this, records, ctx.catalog)
    sys.exit(_exit_status(records, fail_on or []))


def _planned(options: Options, ctx: context.Context) -> tuple[Plan, Mapping[str, Capability]]:
    from metalbench.harness.environments import current
    from metalbench.harness.plan import make_plan
    from metalbench.harness.probing import probe

    capabilities = probe(options.backends, ctx.catalog, current(), options.plugins)
    return make_plan(options, ctx.catalog, capabilities), capabilities


def _begin(results: Store, plan: Plan, label: str) -> Run:
    import secrets

    import msgspec

    from metalbench.harness.host import host
    from metalbench.results.record import Run

    started = time.time()
    name = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started)) + "-" + secrets.token_hex(2)
    this = Run(id=name, started=started, label=label, host=host(), plan=msgspec.Raw(msgspec.json.encode(plan)))
    results.begin(this)
    return this


def _interrupted(results: Store, name: str) -> Run:
    """The run to go on with. A finished one is refused: there is nothing left of it."""
    from metalbench.harness.host import host

    this: Run | None = results.unfinished() if name == UNFINISHED else results.run(name)
    if this is None:
        raise UsageError("There is no unfinished run in this store; `bench list runs` shows what there is.")
    if this.state == "finished":
        raise UsageError(f"Run {this.id} is finished already; `bench show {this.id}` shows it.")
    if this.host.key != host().key:
        raise UsageError(f"Run {this.id} was begun on another machine ({this.host.facts.get('chip', this.host.key)}); finish it there.")
    return this


def _resumed(this: Run, ctx: context.Context) -> tuple[Plan, Mapping[str, Capability]]:
    """The stored plan as it is, and what its backends can do today."""
    import msgspec

    from metalbench.harness.environments import current
    from metalbench.harness.plan import Plan
    from metalbench.harness.probing import probe

    plan: Plan = msgspec.json.decode(this.plan, type=Plan)
    return plan, probe(plan.options.backends, ctx.catalog, current(), plan.options.plugins)


def _measure(this: Run, plan: Plan, capabilities: Mapping[str, Capability], ctx: context.Context, results: Store, *, quiet: bool) -> None:
    from metalbench.harness.cli.progress import progress
    from metalbench.harness.environments import current
    from metalbench.harness.scheduler import Scheduler

    limit = ctx.config.memory_limit_gib
    with alone(quiet=quiet), progress(plan, ctx.catalog, quiet=quiet) as listener:
        scheduler = Scheduler(
            plan=plan,
            run_id=this.id,
            store=results,
            catalog=ctx.catalog,
            capabilities=capabilities,
            environment=current(),
            listener=listener,
            memory_limit=int(limit * 2**30) if limit else None,
        )
        try:
            scheduler.run()
        except BaseException:
            results.finish(this.id, "interrupted")
            if not quiet:
                print(f"\nStopped. What was finished is kept; `bench run --resume {this.id}` does the rest.", file=sys.stderr)
            raise
        results.finish(this.id, "finished")


@contextmanager
def alone(*, quiet: bool) -> Iterator[None]:
    """Hold the machine's measurement lock, and say so when another run has it."""
    import filelock

    from metalbench.harness.scheduler import measurement_lock

    lock = measurement_lock()
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        if not quiet:
            print("Another run is measuring on this machine; waiting for it to end.", file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _exit_status(records: Sequence[Record], fail_on: Sequence[FailOn]) -> int:
    from metalbench.results.record import BROKEN

    bad = BROKEN | {str(status) for status in fail_on}
    return int(any(record.measurement.status in bad for record in records))
