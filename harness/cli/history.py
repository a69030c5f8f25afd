"""``bench history``: how the time of each cell went from run to run, and at which runs it changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.compare import Format, FormatOption
from metalbench.harness.cli.output import naming, print_json, print_report
from metalbench.harness.cli.selection import BackendOption, CaseOption, VariantOption, WorkloadOption, selection
from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metalbench.results.history import History
    from metalbench.results.record import Cell
    from metalbench.results.store import Store


def history(
    workload: WorkloadOption = None,
    backend: BackendOption = None,
    case: CaseOption = None,
    variant: VariantOption = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Measure once more what only the newest run says has changed.")] = False,
    format: FormatOption = Format.text,  # noqa: A002 - the option's name
    store: context.StoreOption = None,
) -> None:
    """Show each cell's series of runs on this machine, with the runs, revisions and versions at which its level changed.

    A change counts as confirmed once more than one run shows it. Where this machine has measured nothing, the series are those of the
    machine that was measured last.
    """
    from metalbench.results.history import document, report

    ctx = context.load()
    wanted = selection(workload, backend, case, variant)
    with context.opened_store(store, ctx.config) as results:
        found = _histories(results, wanted)
        if confirm:
            _confirm(found, results, ctx)
            found = _histories(results, wanted)

    if format == Format.json:
        print_json(document(found))
    else:
        print_report(report(found, naming(ctx.catalog)), format.value)


def _histories(results: Store, wanted: Callable[[Cell], bool]) -> list[History]:
    """Of this machine, else of the one measured last. UsageError where there is no series of what is wanted."""
    from metalbench.harness.host import host
    from metalbench.results.history import History
    from metalbench.results.machines import same_machine
    from metalbench.results.series import series

    newest = results.run("latest").host  # an empty store says so
    for machine in (host(), newest):
        hosts = [known for known in results.hosts() if same_machine(known, machine)]
        if found := [History(cell, points) for cell, points in series(results.database, hosts, wanted)]:
            return sorted(found, key=_place)
    raise UsageError("No cell that these options admit has been measured on this machine; `bench list runs` shows what has.")


def _place(one: History) -> tuple[bool, str, str, str, str]:
    """Series that changed come first."""
    return not one.changes, one.cell.workload, str(one.cell.case), one.cell.column_name, one.cell.variant


def _confirm(found: Sequence[History], results: Store, ctx: context.Context) -> None:
    """Measure every suspect again as its run did."""
    from metalbench.harness.cli.planning import begin, here, resumed
    from metalbench.harness.cli.run import measure
    from metalbench.harness.plan import only
    from metalbench.harness.revisions import revision

    suspects: dict[str, set[str]] = {}
    for one in found:
        if one.suspect is not None:
            suspects.setdefault(one.suspect.run, set()).add(one.cell.key())
    for name, cells in suspects.items():
        before = results.run(name)
        here(before)
        if before.revision != revision(Path.cwd()):
            raise UsageError(
                f"Run {name} was made at {before.revision or 'no revision'}, which is not checked out here; go there to confirm it."
            )
        plan, capabilities = resumed(before, ctx)
        again = only(plan, cells)
        measure(begin(results, again, before.label), again, capabilities, ctx, results, quiet=True)
