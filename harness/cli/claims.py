"""``bench claims``: which of the source documents' claims hold on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.compare import Format, FormatOption
from metalbench.harness.cli.output import naming, print_json, print_report
from metalbench.harness.errors import UsageError, unknown

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from metalbench.harness.plan import Capabilities
    from metalbench.results.claims import Claim, Finding
    from metalbench.results.record import Cell, Run
    from metalbench.results.store import Store

LOOKED_AT = 50  #: of this machine's newest runs, those in which both sides of a claim are looked for


def claims(
    claim: Annotated[list[str] | None, typer.Argument(metavar="[CLAIM]…", help="Only these, such as S11 or S11-recompute.")] = None,
    run: Annotated[bool, typer.Option("--run", help="Measure first what has not been.")] = False,
    suite: Annotated[str, typer.Option(metavar="NAME", help="Of which the cells are, with --run.")] = "documents",
    backend: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only these, such as torch-mps,mlx-metal. [repeatable]")] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="[ID:]ENV", help="As for `bench run`, with --run. [repeatable]")] = None,
    format: FormatOption = Format.text,  # noqa: A002 - the option's name
    store: context.StoreOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing of the measuring.")] = False,
) -> None:
    """Say of each claim of the documents, on each backend, whether it holds on this machine.

    Both sides of a claim are taken from one run, the newest that has them.
    """
    from metalbench.results.claims import claims as all_claims
    from metalbench.results.claims_report import data, report

    ctx = context.load()
    if env and not run:
        raise UsageError("--env says where to measure; give --run with it.")
    with context.opened_store(store, ctx.config) as results:
        wanted = _named(all_claims(), claim or [])
        found = _found(results, wanted)
        if run:
            _measure(results, wanted, found, suite, backend, env, ctx, quiet=quiet)
            found = _found(results, wanted)
    chosen = context.split(backend)
    found = [(this, finding) for this, finding in found if not chosen or _backend(finding) in chosen]
    if not found:
        raise UsageError("Nothing that a claim compares has been measured on this machine; `bench claims --run` measures it.")
    runs = list({this.id: this for this, _ in found}.values())
    findings = [finding for _, finding in found]
    if format == Format.json:
        print_json(data(runs, findings))
    else:
        print_report(report(runs, findings, naming(ctx.catalog)), format.value)


def _named(known: list[Claim], names: list[str]) -> list[Claim]:
    """Those called so, or whose names begin so: S6 is S6-time and all others of S6, and none of S61."""
    for name in names:
        if not any(_begins(claim, name) for claim in known):
            raise unknown("claim", name, [claim.id for claim in known])
    return [claim for claim in known if not names or any(_begins(claim, name) for name in names)]


def _begins(claim: Claim, name: str) -> bool:
    return f"{claim.id}-".startswith(f"{name}-")


def _backend(finding: Finding) -> str:
    side = finding.better or finding.than
    return side.cell.backend if side else finding.column


def _found(results: Store, wanted: list[Claim]) -> list[tuple[Run, Finding]]:
    """For each claim, column and case the newest run of this machine that has both sides, else the newest that has one; in their order."""
    from metalbench.results.claims import check
    from metalbench.results.summary import summarise

    best: dict[tuple[str, str, str], tuple[Run, Finding]] = {}
    for this in _runs_here(results, {claim.workload for claim in wanted}):
        for finding in check(wanted, summarise(this, results.records(this.id))):
            side = finding.better or finding.than
            if side is None:
                continue
            key = (finding.claim.id, side.cell.column_name, side.cell.case_text())
            before = best.get(key)
            if before is None or (finding.whole and not before[1].whole):
                best[key] = (this, finding)
    order = [claim.id for claim in wanted]
    return sorted(best.values(), key=lambda item: (order.index(item[1].claim.id), item[1].column))


def _runs_here(results: Store, workloads: Container[str]) -> Iterator[Run]:
    from metalbench.harness.host import host

    newest = [summary.id for summary in results.runs() if summary.host == host().key][:LOOKED_AT]
    for name in newest:
        this = results.run(name)
        if any(cell.workload in workloads for cell in this.cells()):
            yield this


def _measure(
    results: Store,
    wanted: list[Claim],
    found: list[tuple[Run, Finding]],
    suite: str,
    backend: list[str] | None,
    env: list[str] | None,
    ctx: context.Context,
    *,
    quiet: bool,
) -> None:
    """Both sides of every claim that no run answers yet; memory in processes of their own only for claims on memory."""
    import msgspec

    from metalbench.harness.cli.options import Given
    from metalbench.harness.cli.planning import begin, planned
    from metalbench.harness.cli.run import measure
    from metalbench.harness.plan import only

    plan, capabilities = planned(Given(suite=suite, backend=backend, env=env), ctx, make=True, quiet=quiet)
    whole = [finding for _, finding in found if finding.whole]
    answered = {(finding.claim.id, side.cell.key()) for finding in whole for side in (finding.better, finding.than) if side}
    missing = [
        (cell.key(), claim.metric)
        for claim in wanted
        for cell in plan.cells
        if _compares(claim, cell, capabilities) and (claim.id, cell.key()) not in answered
    ]
    if missing:
        memory = sorted({key for key, metric in missing if metric == "memory"})
        again = msgspec.structs.replace(only(plan, {key for key, _ in missing}), memory=memory)
        measure(begin(results, again, "claims"), again, capabilities, ctx, results, quiet=quiet)


def _compares(claim: Claim, cell: Cell, capabilities: Capabilities) -> bool:
    from metalbench.results.claims import wanted

    offer = capabilities[cell.column].offers.get(cell.workload)
    own = offer is not None and cell.variant == offer.default
    return any(wanted(claim, cell, side, default=own) for side in (claim.better, claim.than))
