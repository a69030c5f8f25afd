"""``bench dashboard``: the results in a browser, served here or as a folder of files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.output import naming
from metalbench.harness.cli.references import HOW, measured
from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    import socket

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)

RunsOption = Annotated[list[str] | None, typer.Option("--run", metavar="RUN", help=f"Only this one. {HOW} [repeatable]")]
PORT = 8642
LOCAL = ("127.0.0.1", "localhost")


@app.callback()
def serve(
    asked: typer.Context,
    run: RunsOption = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; others can read your results where it isn't local.")
    ] = LOCAL[0],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = PORT,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the browser.")] = True,
    store: context.StoreOption = None,
) -> None:
    """Look at results in a browser: which backend to use, how sure that is, and what changed.

    Serves the pages on this machine and follows the run that is being measured; `bench dashboard build DIR` writes them as files.
    """
    if asked.invoked_subcommand is not None:
        if run or store:
            raise UsageError(f"Give --run and --store after `{asked.invoked_subcommand}`, whose options they are.")
        return
    import webbrowser

    import uvicorn

    from metalbench.results.dashboard.server import Served, application

    ctx = context.load()
    with _place(run, store, ctx) as place:
        pages = application(Served(place, naming(ctx.catalog)), _files(), _names(host), lambda: server.should_exit)
        listening = _listen(host, port)
        address = f"http://{host if host not in _EVERYWHERE else LOCAL[0]}:{listening.getsockname()[1]}/"
        print(f"The dashboard is at {address} (Ctrl-C ends it).", flush=True)
        if open_:
            webbrowser.open(address)
        server = uvicorn.Server(
            uvicorn.Config(pages, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=5)
        )
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            sys.exit(0)


@app.command()
def build(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder, or one that this made before.")],
    run: RunsOption = None,
    store: context.StoreOption = None,
) -> None:
    """Write the pages as files that need no server and no network, for GitHub Pages say.

    Without --run they are about the newest run of each machine and suite, and about the history of what is in it.
    """
    from metalbench.results.dashboard.build import BuildError
    from metalbench.results.dashboard.build import build as write
    from metalbench.results.quantities import format_bytes

    ctx = context.load()
    with _place(run, store, ctx) as place, context.opened_store(place, ctx.config) as results:
        try:
            count, size = write(results, naming(ctx.catalog), _files(), directory, [found.id for found in results.runs()] if run else [])
        except BuildError as error:
            raise UsageError(str(error)) from error
    print(f"{directory / 'index.html'}: {count} files, {format_bytes(size)}")


@contextmanager
def _place(runs: list[str] | None, store: str | None, ctx: context.Context) -> Iterator[str]:
    """The store that the pages are about: the user's, or one of only the runs that were named, wherever they were."""
    import tempfile

    from metalbench.results.store import open_store

    if not runs:
        yield context.store_place(store, ctx.config)
        return
    with tempfile.TemporaryDirectory(prefix="metalbench-") as folder:
        place = str(Path(folder) / "results.sqlite")
        with context.opened_store(store, ctx.config) as results, open_store(place) as chosen:
            for name in runs:
                chosen.receive(*measured(name, results))
        yield place


def _files() -> dict[str, bytes]:
    """What pages need beside them. Vega's script is made once for each release of it, in some seconds."""
    from metalbench.harness.environments import cache_folder
    from metalbench.harness.once import made_once
    from metalbench.results.dashboard.static import assets, vega_version, write_vega

    return assets(made_once(cache_folder() / "dashboard" / f"vega-{vega_version()}", write_vega))


_EVERYWHERE = {"0.0.0.0", "::", ""}  # noqa: S104 - compared with, not listened at


def _names(host: str) -> set[str]:
    """What this server may be called by where it listens at ``host``."""
    import platform

    import psutil

    if host not in _EVERYWHERE:
        return {*LOCAL, host}
    return {*LOCAL, platform.node(), *(address.address for own in psutil.net_if_addrs().values() for address in own)}


def _listen(host: str, port: int) -> socket.socket:
    import socket

    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise UsageError(f"Nothing can listen at {host}:{port} ({error.strerror}); give another --port, or 0 for a free one.") from error
