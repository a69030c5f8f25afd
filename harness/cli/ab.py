"""``bench ab``: two environments, revisions or variants on this machine, side by side until it is sure which is faster."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.compare import (
    FailOnOption,
    Format,
    FormatOption,
    SvgOption,
    ThresholdOption,
    check,
    conclude,
    failures,
    print_comparison,
)
from metalbench.harness.cli.options import Given
from metalbench.harness.cli.selection import BackendOption, CaseOption, WorkloadOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metalbench.harness.cli.sides import Asked, Planned
    from metalbench.harness.contest import Entrant
    from metalbench.results.record import RunState
    from metalbench.results.store import Store

SIDE = "An environment as in --env, a git revision, or a variant"


def ab(
    base: Annotated[str, typer.Option("--base", metavar="ENV|REV|VARIANT", help=f"{SIDE}.")],
    candidate: Annotated[
        str, typer.Option("--candidate", metavar="ENV|REV|VARIANT", help="The same; else what is here.", show_default=False)
    ] = "",
    suite: Annotated[str | None, typer.Option(metavar="NAME", help="quick (default), standard or large.", show_default=False)] = None,
    workload: WorkloadOption = None,
    backend: BackendOption = None,
    case: CaseOption = None,
    pairs: Annotated[int, typer.Option(min=8, help="At most so many pairs of fresh processes.")] = 16,
    budget: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds of sampling per cell, side and pair.", show_default=False)
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Fixes the order and the inputs.", show_default="order at random")] = None,
    threshold: ThresholdOption = 3.0,
    fail_on: FailOnOption = None,
    format: FormatOption = Format.text,  # noqa: A002 - the option's name
    svg: SvgOption = None,
    label: Annotated[str, typer.Option(metavar="TEXT", help="A name for both runs.", show_default=False)] = "",
    store: context.StoreOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdicts only.")] = False,
) -> None:
    """Measure two sides in pairs of fresh processes, looking four times whether it is sure which is faster.

    What disturbs the machine disturbs both, so that this is what a pull request should use, on any noisy runner. A REV is measured by the
    plug-ins of bench.toml as they were then; without --candidate, against the working tree. A cell is done when it has a verdict.
    """
    from metalbench.harness.cli.sides import asked, planned_side
    from metalbench.harness.cli.watching import watching
    from metalbench.harness.contest import Contest
    from metalbench.harness.wakefulness import awake

    failing = failures(fail_on)
    check(threshold, svg)
    ctx = context.load()
    given = Given(suite, None, backend, workload, case, None, budget=budget, seed=seed, launches=pairs)
    sides = asked(base, candidate, given, ctx)
    planned = [planned_side(side, given, ctx, quiet=quiet) for side in sides]
    with context.opened_store(store, ctx.config) as results, ExitStack() as held:
        held.enter_context(context.alone(quiet=quiet))
        held.enter_context(awake())
        listener = held.enter_context(watching(quiet=quiet))
        entrants = _entrants(sides, planned, results, label)
        contest = Contest(entrants, results, listener, pairs=pairs, threshold=threshold / 100, memory_limit=ctx.config.memory_limit)
        state: RunState = "interrupted"
        try:
            found = contest.run(listener.looked)
            state = "finished"
        finally:
            for entrant in entrants:
                results.become(entrant.run.id, state)
    print_comparison(found, ctx.catalog, format, svg, failing)
    conclude(found, ctx.catalog, failing)


def _entrants(sides: Sequence[Asked], planned: Sequence[Planned], results: Store, label: str) -> tuple[Entrant, Entrant]:
    """Both sides with their runs, which the store keeps as two that were measured beside each other."""
    import msgspec

    from metalbench.harness.cli.planning import begin, new_name
    from metalbench.harness.cli.sides import SAME, matched
    from metalbench.harness.contest import Entrant

    cells = matched(planned[0].plan.cells, planned[1].plan.cells)
    stem = new_name()
    names = [f"{stem}-base", f"{stem}-candidate"]
    made = []
    for number, (side, (plan, capabilities, ctx)) in enumerate(zip(sides, planned, strict=True)):
        own = msgspec.structs.replace(plan, cells=cells[number], blocks=[])
        called = f"{label or 'ab'}: {side.name or SAME[side.kind]}"
        run = begin(results, own, called, name=names[number], commit=side.commit, beside=names[1 - number])
        made.append(Entrant(run, own, ctx.catalog, capabilities))
    return made[0], made[1]
