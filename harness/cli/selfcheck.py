"""``bench selfcheck``: whether each backend's clock can be believed."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.options import chosen_columns

if TYPE_CHECKING:
    from metalbench.harness.environments import Column
    from metalbench.harness.executor import Ended
    from metalbench.harness.protocol import Event


def selfcheck(
    backend: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only these. [repeatable]")] = None,
) -> None:
    """Check that time follows the work: twice the chained products take twice as long, and waiting is no quicker than reading."""
    from metalbench.harness.protocol import Refused, SelfChecked

    ctx = context.load()
    failed = False
    with context.alone(quiet=False):
        for wanted in chosen_columns(backend, None, ctx):
            name = wanted.column.backend
            answer = _ask(wanted.column, ctx)
            match answer:
                case SelfChecked(ok, doubling, closed, reason):
                    verdict = "ok" if ok else f"REFUSED: {reason}"
                    print(f"{name}: twice the work takes {doubling:.2f} times as long, waiting {closed:.2f} of reading: {verdict}")
                    failed |= not ok
                case Refused(status="unavailable", reason=reason):
                    print(f"{name}: unavailable: {reason}")
                case _:
                    print(f"{name}: {getattr(answer, 'status', 'failed')}: {getattr(answer, 'reason', '')}")
                    failed = True
    sys.exit(int(failed))


def _ask(column: Column, ctx: context.Context) -> Event | Ended:
    from metalbench.harness.executor import SELFCHECK_TIMEOUT, Worker
    from metalbench.harness.probing import PROBE_MEMORY
    from metalbench.harness.protocol import Opened, SelfCheck

    framework, kind = ctx.catalog.backend(column.backend)
    with (
        tempfile.TemporaryDirectory(prefix="metalbench-") as folder,
        Worker(framework, kind, column.environment, Path(folder), plugins=ctx.plugins, memory_limit=PROBE_MEMORY) as worker,
    ):
        opened = worker.open()
        return worker.ask(SelfCheck(), SELFCHECK_TIMEOUT) if isinstance(opened, Opened) else opened
