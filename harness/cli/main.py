"""The command ``bench``. Start-up is part of the product: only Typer and Rich are imported before a command knows it needs more."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from metalbench import __version__
from metalbench.harness.cli import doctor, listing, run, selfcheck, show
from metalbench.harness.errors import MetalbenchError

app = typer.Typer(
    name="bench",
    help="The same machine-learning work through PyTorch, JAX, MLX and TensorFlow, checked and measured alike.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("show")(show.show)
app.add_typer(listing.app, name="list")
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


def main() -> None:
    """Run the command; a user's mistake is one sentence on standard error and exit status 2, an interrupt is 130."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks × or µ is no reason to lose a table
    try:
        app(_with_default_resume(sys.argv[1:]))
    except MetalbenchError as error:
        fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, `head` say, has seen enough
        sys.stderr.close()
        sys.exit(1)


def fail(sentence: str) -> None:
    print(f"bench: {sentence}", file=sys.stderr)
    sys.exit(2)


def _with_default_resume(arguments: list[str]) -> list[str]:
    """``--resume`` may stand alone, which the option parser has no notion of: it then means the last run left unfinished."""
    out = []
    for argument, following in zip(arguments, [*arguments[1:], "-"], strict=True):
        out.append(argument)
        if argument == "--resume" and following.startswith("-"):
            out.append(run.UNFINISHED)
    return out


if __name__ == "__main__":
    main()
