"""``bench run --fleet``: measure on many machines and keep it here."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from metalbench.harness.cli import context
from metalbench.harness.cli.fleet import ready
from metalbench.harness.cli.options import Given, make_options
from metalbench.harness.cli.output import print_plan, print_runs
from metalbench.harness.cli.planning import UNFINISHED, new_name, stored_plan
from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    from metalbench.harness.fleet.campaign import Member
    from metalbench.harness.fleet.dispatch import Fleet
    from metalbench.harness.fleet.messages import Survey
    from metalbench.results.record import Record, Run
    from metalbench.results.store import Store


class Where(NamedTuple):
    """The options of ``bench run`` that say which machines measure."""

    address: str
    pattern: str
    anywhere: bool
    tls: Path | None


def measure(
    where: Where, given: Given, label: str, ctx: context.Context, place: str | None, *, quiet: bool
) -> tuple[bool, list[tuple[Run, list[Record]]]]:
    """A new run on each machine; whether all of it could be done, and what was found."""
    with _reach(where) as fleet:
        surveys = _surveys(fleet, where, given, ctx, making=True)
        with context.opened_store(place, ctx.config) as results:
            members = _begin(surveys, label, results)
            return _run(fleet, members, ctx, results, anywhere=where.anywhere, quiet=quiet)


def resume(where: Where, name: str, ctx: context.Context, place: str | None, *, quiet: bool) -> tuple[bool, list[tuple[Run, list[Record]]]]:
    """The rest of what was begun on a fleet."""
    with context.opened_store(place, ctx.config) as results:
        members = _unfinished(name, results)
        with _reach(where) as fleet:
            return _run(fleet, members, ctx, results, anywhere=members[0].plan.options.anywhere, quiet=quiet)


def preview(where: Where, given: Given, ctx: context.Context) -> None:
    """Print each machine's plan."""
    with _reach(where) as fleet:
        surveys = _surveys(fleet, where, given, ctx, making=False)
    for key, survey in surveys.items():
        assert survey.plan is not None
        print(f"{survey.host.facts['chip']} ({key})")
        print_plan(survey.plan, ctx.catalog)
        print()


def _reach(where: Where) -> Fleet:
    ready()
    from metalbench.harness.fleet import security
    from metalbench.harness.fleet.dispatch import Fleet

    return Fleet(security.address(where.address, where.tls), security.security(where.tls, "client"))


def _surveys(fleet: Fleet, where: Where, given: Given, ctx: context.Context, *, making: bool) -> dict[str, Survey]:
    """Every machine's plan. UsageError where one differs from us, or can't make anything of the request."""
    import msgspec

    from metalbench.harness.fleet.messages import Request, plugin_marks

    options = msgspec.structs.replace(make_options(given, [], ctx), anywhere=where.anywhere)
    environments = given.env or []
    request = Request(
        plugins=plugin_marks(ctx.plugins),
        options=options,
        backends=context.split(given.backend) or ([] if environments else ctx.config.backends),
        environments=environments,
        making=making,
    )
    machines = fleet.machines(where.pattern)
    surveys = fleet.survey(request, list(machines))
    for key, survey in surveys.items():
        if survey.problem:
            raise UsageError(f"The machine {machines[key].get('name', '?')} ({key}) can't take part: {survey.problem.rstrip('.')}.")
    return surveys


def _begin(surveys: Mapping[str, Survey], label: str, results: Store) -> list[Member]:
    """A run for each machine, all of one name."""
    import msgspec

    from metalbench.harness.fleet.campaign import Member
    from metalbench.harness.revisions import revision
    from metalbench.results.machines import member_name
    from metalbench.results.record import Run

    name, began, commit = new_name(), time.time(), revision(Path.cwd())
    members = []
    for key, survey in surveys.items():
        assert survey.plan is not None
        plan = msgspec.Raw(msgspec.json.encode(survey.plan))
        run = Run(id=member_name(name, key), started=began, label=label, host=survey.host, plan=plan, revision=commit)
        results.begin(run)
        members.append(Member(run, survey.plan, frozenset(survey.able)))
    return members


def _unfinished(name: str, results: Store) -> list[Member]:
    """The runs of a fleet that are to be gone on with."""
    from metalbench.harness.fleet.campaign import Member
    from metalbench.results.machines import fleet_name

    if name == UNFINISHED:
        name = next((fleet_name(run.id) for run in results.runs() if run.state != "finished" and fleet_name(run.id)), "")
        if not name:
            raise UsageError("There is no unfinished run of a fleet in this store; `bench list runs` shows what there is.")
    runs = results.fleet(name)
    if not runs:
        raise UsageError(f"Run {results.run(name).id} was not measured by a fleet; leave out --fleet.")
    if all(run.state == "finished" for run in runs):
        raise UsageError(f"Run {name} is finished already; `bench show {name}` shows it.")
    members = []
    for run in runs:
        plan = stored_plan(run)
        members.append(Member(run, plan, frozenset(cell.key() for cell in plan.cells)))
    return members


def _run(
    fleet: Fleet, members: Sequence[Member], ctx: context.Context, results: Store, *, anywhere: bool, quiet: bool
) -> tuple[bool, list[tuple[Run, list[Record]]]]:
    from metalbench.harness.cli.fleet_progress import progress
    from metalbench.harness.fleet.campaign import Campaign, missing_launches
    from metalbench.results.machines import fleet_name

    name = fleet_name(members[0].run.id)
    topic = f"metalbench-{name}-{secrets.token_hex(4)}"
    again = f"`bench run --fleet … --resume {name}` does the rest."
    with progress(members, ctx.catalog, anywhere=anywhere, quiet=quiet) as watcher:
        campaign = Campaign(members, results, watcher, topic, anywhere=anywhere)
        tasks = campaign.tasks()
        for member in members:
            results.become(member.run.id, "running")
        try:
            lost = fleet.run(tasks, topic, campaign.hear, campaign.receive)
        except BaseException:
            campaign.close()
            if not quiet:
                print(f"\nStopped. What was finished is kept; {again}", file=sys.stderr)
            raise
        complete = campaign.close()
    names = {member.machine: f"{member.run.host.facts.get('name', '?')} ({member.machine})" for member in members}
    for (machine, why), count in missing_launches(tasks, lost).items():
        on = f" on {names[machine]}" if machine else ""
        print(f"bench: {count} launches{on} are not measured: {why}; {again}", file=sys.stderr)
    found = [(run, results.records(run.id)) for run in results.fleet(name)]
    return complete, found


def show(found: Sequence[tuple[Run, Sequence[Record]]], ctx: context.Context) -> None:
    """The machines side by side."""
    measured = [(run, records) for run, records in found if records]
    if measured:
        print_runs(measured, ctx.catalog)
