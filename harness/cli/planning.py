"""From the options, or from a run that was interrupted, to a plan and what its backends can do today."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from metalbench.harness.cli import context
from metalbench.harness.cli.options import Given, chosen_columns, make_options
from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    from metalbench.harness.columns import Wanted
    from metalbench.harness.environments import Column
    from metalbench.harness.plan import Capabilities, Options, Plan
    from metalbench.results.record import Run
    from metalbench.results.store import Store

UNFINISHED = "the last unfinished run"  #: what ``--resume`` alone stands for


def planned(given: Given, ctx: context.Context, *, make: bool, quiet: bool) -> tuple[Plan, Capabilities]:
    """A plan of what was asked for, its environments made if they were asked for by their requirements."""
    import msgspec

    from metalbench.harness.plan import make_plan

    wanted = chosen_columns(given.backend, given.env, ctx)
    options = make_options(given, [one.column for one in wanted], ctx)  # first, so that a mistake costs no installation
    if make:
        options = msgspec.structs.replace(options, columns=[_importing(_there(one, ctx, quiet=quiet), ctx.imports) for one in wanted])
    capabilities = _capabilities(options, ctx)
    return make_plan(options, ctx.catalog, capabilities), capabilities


def _there(wanted: Wanted, ctx: context.Context, *, quiet: bool) -> Column:
    from metalbench.harness import provisioning
    from metalbench.harness.cli.env import make
    from metalbench.harness.environments import Column

    column, recipe = wanted
    if column.environment.python or recipe is None or recipe.name in ctx.recipes.by_name:
        return column
    with context.alone(quiet=quiet):  # installing would disturb who is measuring
        make(recipe, ctx, quiet=quiet)
    return Column(column.backend, provisioning.environment(recipe))


def _importing(column: Column, folders: Sequence[Path]) -> Column:
    """The column with ``folders`` first among the places where its workers look for packages."""
    import msgspec

    if not folders:
        return column
    variables = column.environment.variables | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    return msgspec.structs.replace(column, environment=msgspec.structs.replace(column.environment, variables=variables))


def _capabilities(options: Options, ctx: context.Context) -> Capabilities:
    from metalbench.harness.probing import Prober

    return Prober(ctx.catalog, ctx.recipes, options.plugins).probe(options.columns)


def begin(results: Store, plan: Plan, label: str, *, name: str = "", commit: str = "", beside: str = "") -> Run:
    """Put a run into the store. ``commit`` where it is not the one checked out here."""
    import msgspec

    from metalbench.harness.host import host
    from metalbench.harness.revisions import revision
    from metalbench.results.record import Run

    this = Run(
        id=name or new_name(),
        started=time.time(),
        label=label,
        host=host(),
        plan=msgspec.Raw(msgspec.json.encode(plan)),
        revision=commit or revision(Path.cwd()),
        beside=beside,
    )
    results.begin(this)
    return this


def new_name() -> str:
    """The id of a run: when it was begun, UTC, and what tells it from others of that second."""
    import secrets

    return time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + "-" + secrets.token_hex(2)


def interrupted(results: Store, name: str) -> Run:
    """The run to go on with. A finished one is refused: there is nothing left of it."""
    from metalbench.harness.host import host
    from metalbench.results.machines import same_machine

    ours = [known for known in results.hosts() if same_machine(known, host())]  # a store may be that of several machines
    this: Run | None = results.unfinished(ours) if name == UNFINISHED else results.run(name)
    if this is None:
        raise UsageError("There is no unfinished run of this machine's in this store; `bench list runs` shows what there is.")
    if this.state == "finished":
        raise UsageError(f"Run {this.id} is finished already; `bench show {this.id}` shows it.")
    if this.beside:
        raise UsageError(f"Run {this.id} was measured in turn with {this.beside}, which can't be taken up again; start `bench ab` afresh.")
    here(this)
    if this.host.key != host().key:
        raise UsageError(f"Run {this.id} was begun before the system of this machine was updated; start afresh.")
    return this


def here(this: Run) -> None:
    """UsageError unless the run was made on this machine, whatever system it had then."""
    from metalbench.harness.host import host
    from metalbench.results.machines import fleet_name, same_machine

    if (fleet := fleet_name(this.id)) and not same_machine(this.host, host()):
        raise UsageError(f"Run {this.id} was begun by a fleet; `bench run --fleet ADDRESS --resume {fleet}` goes on with it.")
    if not same_machine(this.host, host()):
        raise UsageError(f"Run {this.id} was begun on another machine ({this.host.facts.get('chip', this.host.key)}); measure there.")


def resumed(this: Run, ctx: context.Context) -> tuple[Plan, Capabilities]:
    """The stored plan as it is, and what its backends can do today."""
    plan = stored_plan(this)
    if gone := next((kernel.name for kernel in plan.options.kernels if not Path(kernel.folder).is_dir()), None):
        raise UsageError(f"The copy of the kernel {gone} that run {this.id} measures is gone; start afresh with --kernel.")
    return plan, _capabilities(plan.options, ctx)


def stored_plan(this: Run) -> Plan:
    """The run's plan. UsageError where another version made it."""
    import msgspec

    from metalbench.harness.plan import Plan

    try:
        plan: Plan = msgspec.json.decode(this.plan, type=Plan)
    except msgspec.ValidationError as error:
        raise UsageError(f"Run {this.id} was begun by another version of metalbench; finish it with that one, or start afresh.") from error
    return plan
