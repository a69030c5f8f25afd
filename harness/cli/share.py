"""``bench share``: a run as one file for others, without what tells whose it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.output import write_whole
from metalbench.harness.cli.references import HOW, measured

if TYPE_CHECKING:
    from metalbench.results.sharing import Names


def share(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")],
    run: Annotated[str, typer.Argument(metavar="[RUN]", help=HOW)] = "latest",
    store: context.StoreOption = None,
) -> None:
    """Write a run to one file without user name, host name and folders, for `bench show FILE...` on another machine."""
    from metalbench.results.formats import jsonl
    from metalbench.results.machines import described
    from metalbench.results.quantities import printable
    from metalbench.results.sharing import names, scrub

    with context.opened_store(store, context.load().config) as results:
        this, records = measured(run, results)
    scrubbed, rest = scrub(this, records)
    write_whole(output, jsonl.write([(scrubbed, rest)]), "give --output another place")
    what = printable(f"run {scrubbed.id} of {described(scrubbed.host)}; {_taken(names(this, records))}")
    print(f"{output}: {what}. Look it through before you publish it.")


def _taken(found: Names) -> str:
    """What was looked for, so that who goes by another name notices."""
    known = [f"{kind} {' and '.join(sorted(each))}" for kind, each in (("user", found.users), ("host", found.hosts)) if each]
    return f"taken out: {', '.join(['folders', *known])}"
