"""``bench fleet`` and ``bench worker``: several machines that one command measures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.errors import UsageError

app = typer.Typer(help="What several machines need to be measured by one command.", no_args_is_help=True, rich_markup_mode=None)

TlsOption = Annotated[
    Path | None, typer.Option("--tls", metavar="DIR", help="The certificates of `bench fleet certificates`.", show_default=False)
]
InsecureOption = Annotated[bool, typer.Option("--insecure", help="Be reachable from other machines without certificates.")]


@app.command()
def scheduler(
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="Where to listen: this machine's address for the others.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port there.")] = 8786,
    dashboard: Annotated[int, typer.Option(min=0, max=65535, help="The port of Dask's dashboard, on this machine alone.")] = 8787,
    tls: TlsOption = None,
    insecure: InsecureOption = False,
) -> None:
    """Start what machines join and `bench run --fleet` speaks to; Ctrl-C ends it. It measures nothing itself."""
    ready()
    import asyncio

    from metalbench.harness.fleet.security import refuse_strangers, security
    from metalbench.harness.fleet.serving import serve

    refuse_strangers(host, tls, insecure=insecure)

    def on_ready(address: str, page: str) -> None:
        certificates = "" if tls is None else " --tls DIR"
        print(f"Scheduler at {address}; dashboard at {page}\nOn each machine: bench worker {address}{certificates}", flush=True)

    asyncio.run(serve(host, port, security(tls, "scheduler"), dashboard, on_ready))


@app.command()
def certificates(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write them.")]) -> None:
    """Make an authority of your own and certificates for scheduler, workers and clients; copy the folder to each machine safely."""
    ready()
    from metalbench.harness.fleet.certificates import make

    try:
        made = make(folder)
    except OSError as error:
        raise UsageError(f"{folder} can't be written to: {error.strerror}; give another folder.") from error
    print(f"Wrote {', '.join(file.name for file in made)} to {folder}. Who has a key may run programs on the fleet.")


def worker(
    address: Annotated[str, typer.Argument(metavar="SCHEDULER", help="Its address, such as tcp://192.168.1.10:8786.")],
    tls: TlsOption = None,
    insecure: InsecureOption = False,
) -> None:
    """Make this machine one of a fleet, until Ctrl-C. Its plug-ins and environments are those of the bench.toml here."""
    ready()
    import asyncio

    from metalbench.harness.fleet import security
    from metalbench.harness.fleet.machine import Machine
    from metalbench.harness.fleet.serving import join
    from metalbench.harness.wakefulness import awake

    place = security.address(address, tls)
    security.refuse_strangers(place, tls, insecure=insecure)
    ctx = context.load()
    machine = Machine(ctx.catalog, ctx.recipes, ctx.plugins, ctx.config.backends, ctx.config.memory_limit)
    with awake():
        asyncio.run(join(place, security.security(tls, "worker"), machine, lambda sentence: print(sentence, file=sys.stderr, flush=True)))


def ready() -> None:
    """UsageError where the extra is not installed; else Dask is, and configured."""
    try:
        from metalbench.harness.fleet.settings import configure

        configure()
        import cryptography  # noqa: F401
    except ImportError as error:
        raise UsageError(f"A fleet needs {error.name}, which is not installed: pip install 'metalbench[fleet]'.") from error
