"""The command ``bench``. Start-up is part of the product: only Typer and Rich are imported before a command knows it needs more."""

from __future__ import annotations

from typing import Annotated

import typer

from metalbench import __version__
from metalbench.harness.cli import (
    ab,
    claims,
    compare,
    dashboard,
    doctor,
    env,
    fleet,
    history,
    listing,
    plot,
    repro,
    run,
    selfcheck,
    share,
    show,
    store,
    transfer,
)

app = typer.Typer(
    name="bench",
    help="The same machine-learning work through PyTorch, JAX, MLX and TensorFlow, checked and measured alike.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: Rich's takes longer to import than all the rest
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("show")(show.show)
app.command("compare")(compare.compare)
app.command("ab")(ab.ab)
app.command("history")(history.history)
app.command("claims")(claims.claims)
app.command("plot")(plot.plot)
app.command("repro")(repro.repro)
app.command("share")(share.share)
app.command("export")(transfer.export)
app.command("import")(transfer.import_)
app.add_typer(listing.app, name="list")
app.add_typer(env.app, name="env")
app.add_typer(store.app, name="store")
app.add_typer(dashboard.app, name="dashboard")
app.add_typer(fleet.app, name="fleet")
app.command("worker")(fleet.worker)
app.command("selfcheck")(selfcheck.selfcheck)
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"metalbench {__version__}")
        raise typer.Exit


@app.callback()
def bench(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")] = False,
) -> None:
    pass
