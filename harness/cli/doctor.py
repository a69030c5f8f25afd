"""``bench doctor``: what this machine is, what works on it, what doesn't; and for each, what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from metalbench import __version__
from metalbench.harness.cli import context

if TYPE_CHECKING:
    from metalbench.harness.capability import Capability

PATIENCE = 13.0  #: seconds for all backends together; one that is not there by then is said to be slow


class Line(NamedTuple):
    subject: str
    state: str
    finding: str
    remedy: str


def doctor(
    coverage: Annotated[bool, typer.Option("--coverage", help="List what this machine can't exercise of metalbench, and why.")] = False,
) -> None:
    """Look at the machine and try every backend; every line ends in what to do."""
    from metalbench.harness.columns import default
    from metalbench.harness.probing import Prober

    ctx = context.load()
    prober = Prober(ctx.catalog, ctx.recipes, ctx.plugins, PATIENCE)
    found = prober.probe(default(name, ctx.recipes).column for name in ctx.catalog.backends)
    if coverage:
        _print_coverage(ctx, found)
        return
    _print([*_machine(ctx), *(_backend(backend, environment, capability, ctx) for (backend, environment), capability in found.items())])


def _machine(ctx: context.Context) -> Iterable[Line]:
    """What it is, where things are, and what state it is in."""
    from metalbench.harness.conditions import conditions, doubts
    from metalbench.harness.environments import cache_folder
    from metalbench.harness.host import host

    facts = host().facts
    gpu = [facts["gpu"]] if "gpu" in facts else [f"{facts['gpu_cores']} GPU cores"] if "gpu_cores" in facts else []
    limit = [f"GPU memory limit {facts['gpu_limit_mib']}"] if "gpu_limit_mib" in facts else []
    chip = [facts["chip"], f"{facts['cores']} cores", *gpu, f"{facts['memory_gib']} GiB", *limit, facts["system"], facts["build"]]
    yield Line("metalbench", "ok", f"{__version__}, Python {facts['python']} in {sys.prefix}", "bench list workloads")
    yield Line("machine", "ok", f"{', '.join(chip)}; accelerators: {facts['accelerators']}", "bench list backends")
    yield Line("results", "ok", context.store_place(None, ctx.config), "bench list runs")
    yield Line("inputs and compiled code", "ok", str(cache_folder()), "may be deleted at any time")
    state = conditions()
    shown = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in state.items())
    doubted = doubts(state)
    yield Line("state", "doubtful" if doubted else "ok", shown, "see the next lines" if doubted else "measure now: bench run")
    for doubt in doubted:
        yield Line("", "warning", doubt.problem, doubt.remedy)


def _backend(backend: str, environment: str, found: Capability, ctx: context.Context) -> Line:
    """How it is, in which environment, with which versions."""
    where = "" if environment == "current" else f" (environment {environment})"
    if found.status != "ok":
        return Line(backend, found.status, f"{found.reason}{where}", found.remedy)
    own = ctx.catalog.backend(backend)[0].distributions
    versions = ", ".join(f"{name} {value}" for name, value in found.facts.items() if name in own)
    absent = "".join(f"; no {workload}: {reason}" for workload, reason in found.absent.items())
    return Line(backend, "ok", f"{versions}{where}{absent}", f"bench run --backend {backend}")


def _print(lines: Iterable[tuple[str, ...]]) -> None:
    """In a terminal as wide as that is; elsewhere every line whole."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [[Text(text) for text in line] for line in lines]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for _ in rows[0]:
        table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else sum(max(text.cell_len for text in column) + 2 for column in zip(*rows, strict=True))
    Console(width=width, highlight=False).print(table)


def _print_coverage(ctx: context.Context, found: dict[tuple[str, str], Capability]) -> None:
    from metalbench.harness.coverage import coverage

    covered = list(coverage(ctx.catalog, ctx.recipes, found))
    for heading, here in (("Exercised here", True), ("Not exercised here", False)):
        print(f"{heading}:")
        _print([("", one.what, "" if here else one.otherwise) for one in covered if one.here is here])
