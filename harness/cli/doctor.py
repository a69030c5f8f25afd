"""``bench doctor``: what this machine is, what works on it, what doesn't and what to do about that."""

from __future__ import annotations

from metalbench import __version__
from metalbench.harness.cli import context


def doctor() -> None:
    """Look at the machine and try every backend; each line that is not well says what to do."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from metalbench.harness.columns import default
    from metalbench.harness.environments import cache_folder, current
    from metalbench.harness.host import host, load
    from metalbench.harness.probing import Prober

    ctx = context.load()
    facts = host().facts
    print(f"metalbench {__version__}, Python {facts['python']} ({current().python})")
    print(f"{facts['chip']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['system']}, accelerators: {facts['accelerators']}")
    print(f"results: {context.store_place(None, ctx.config)}")
    print(f"inputs and compiled code: {cache_folder()} (may be deleted at any time)")
    if (busy := load()) > 0.5:
        print(f"warning: the machine is busy ({busy:.1f} runnable processes a core): close other programs before measuring")
    table = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    table.add_column(no_wrap=True)
    columns = [default(name, ctx.recipes).column for name in ctx.catalog.backends]
    for (name, _), capability in Prober(ctx.catalog, ctx.recipes, ctx.plugins).probe(columns).items():
        versions = ", ".join(f"{key} {value}" for key, value in capability.facts.items() if key in _packages(name, ctx))
        what = versions if capability.status == "ok" else capability.why
        table.add_row(name, capability.status, Text(what))
    Console().print(table)


def _packages(backend: str, ctx: context.Context) -> list[str]:
    return ctx.catalog.backend(backend)[0].distributions
