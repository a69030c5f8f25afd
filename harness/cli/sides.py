"""What ``bench ab`` compares: an environment, a git revision or a variant on each side, and else the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from metalbench.harness.cli import context
from metalbench.harness.cli.options import Given
from metalbench.harness.errors import UsageError, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metalbench.harness.plan import Capabilities, Plan
    from metalbench.harness.revisions import Checkout
    from metalbench.results.record import Cell

Kind = Literal["environment", "revision", "variant"]
#: what the side that isn't named is
SAME: dict[Kind, str] = {"environment": "the default environment", "revision": "the working tree", "variant": "the default variant"}


class Asked(NamedTuple):
    """A side as it was named. ``name`` is empty for what is here; ``commit`` is a revision's."""

    kind: Kind
    name: str
    commit: str = ""


class Planned(NamedTuple):
    """What is measured on a side, what its backends can do, and by which plug-ins."""

    plan: Plan
    capabilities: Capabilities
    ctx: context.Context


def asked(base: str, candidate: str, given: Given, ctx: context.Context) -> tuple[Asked, Asked]:
    """Both sides, of one kind. ``candidate`` may be empty. UsageError for a name that is nothing, or not the same kind of thing."""
    first = _recognised(base, given, ctx)
    second = _recognised(candidate, given, ctx) if candidate else Asked(first.kind, "")
    if first.kind != second.kind:
        raise UsageError(f"{base!r} is {_an(first.kind)} and {candidate!r} {_an(second.kind)}; compare two of one kind.")
    return first, second


def _an(kind: Kind) -> str:
    return f"an {kind}" if kind == "environment" else f"a {kind}"


def _recognised(name: str, given: Given, ctx: context.Context) -> Asked:
    from metalbench.harness.revisions import resolve
    from metalbench.harness.specification import existing

    if ":" in name or name in ctx.recipes.by_name:
        return Asked("environment", name)
    if existing(name) is not None:
        raise UsageError(f"{name!r} doesn't say for which backend; put that before it, as in torch-cpu:{name}.")
    workloads = context.split(given.workload) or ctx.config.workloads or ctx.catalog.usual_workloads
    variants = dict.fromkeys(variant for workload in workloads for variant in ctx.catalog.workload(workload).variants)
    if name in variants:
        return Asked("variant", name)
    if commit := resolve(name, Path.cwd()):
        return Asked("revision", name, commit)
    raise unknown("environment, variant or git revision", name, [*ctx.recipes.by_name, *variants])


def planned_side(side: Asked, given: Given, ctx: context.Context, *, quiet: bool) -> Planned:
    """The side's plan, its environments made where that takes making."""
    from metalbench.harness.cli.planning import planned

    if side.kind == "environment" and side.name:
        given = given._replace(env=[side.name], backend=None if ":" in side.name else given.backend)
    elif side.kind == "variant":
        given = given._replace(variant=[side.name] if side.name else given.variant)
    elif side.kind == "revision":
        ctx = _at(side, ctx) if side.commit else _here(ctx)
    plan, capabilities = planned(given, ctx, make=True, quiet=quiet)
    return Planned(plan, capabilities, ctx)


def _at(side: Asked, ctx: context.Context) -> context.Context:
    """The same settings with the plug-ins as they were at a commit, and the packages of the repository found there first."""
    from metalbench.harness.catalog import Catalog
    from metalbench.harness.environments import cache_folder
    from metalbench.harness.revisions import checkout, repository

    top = repository(Path.cwd())
    if not any(Path(plugin).resolve().is_relative_to(top) for plugin in ctx.plugins):
        raise UsageError(
            f"No plug-in of bench.toml is in this repository, so that {side.name} would measure the same: a revision changes your own "
            "workloads and backends only."
        )
    tree = checkout(side.commit, Path.cwd(), cache_folder() / "revisions")
    plugins = [_plugin_then(Path(plugin), tree, side.name) for plugin in ctx.plugins]
    return context.Context(ctx.config, [str(plugin) for plugin in plugins], Catalog(plugins), imports=_import_roots(tree.copy))


def _here(ctx: context.Context) -> context.Context:
    """The working tree, its packages found in it and not where a copy of them may be installed."""
    from metalbench.harness.revisions import repository

    return context.Context(ctx.config, ctx.plugins, ctx.catalog, imports=_import_roots(repository(Path.cwd())))


def _import_roots(top: Path) -> list[Path]:
    return [top / "src", top]


def _plugin_then(plugin: Path, tree: Checkout, name: str) -> Path:
    then = tree.then(plugin)
    if then is None:
        return plugin
    if not then.is_file():
        raise UsageError(f"Revision {name} has no file {then.relative_to(tree.copy)}; compare with one that has it.")
    return then


def matched(base: Sequence[Cell], candidate: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """The cells of both sides in one order, a base cell and a candidate cell of one case and backend at each place.

    UsageError where one side has cells that the other lacks, or another version of a workload.
    """
    ours, theirs = _grouped(base), _grouped(candidate)
    for key, cells in ours.items():
        workload, _, backend = key
        if len(theirs.get(key, [])) != len(cells):
            raise UsageError(f"{workload} on {backend} has other cases or variants on the two sides; choose what both have.")
        versions = {cell.version for cell in [*cells, *theirs[key]]}
        if len(versions) > 1:
            raise UsageError(f"{workload} is of version {' and '.join(map(str, sorted(versions)))}: the two sides don't do the same work.")
    if lacking := [key for key in theirs if key not in ours]:
        raise UsageError(f"{lacking[0][0]} on {lacking[0][2]} is on the candidate's side only; choose what both have.")
    return [cell for cells in ours.values() for cell in cells], [cell for key in ours for cell in theirs[key]]


def _grouped(cells: Sequence[Cell]) -> dict[tuple[str, str, str], list[Cell]]:
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.workload, cell.case_text(), cell.backend), []).append(cell)
    return groups
