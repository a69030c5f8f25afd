"""Where ``bench`` starts. Nothing is imported yet, so that an interrupt is answered alike from the first moment on."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; a user's mistake is one sentence on standard error and exit status 2, an interrupt is 130."""
    try:
        sys.exit(_run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, `head` say, has seen enough
        sys.stderr.close()
        sys.exit(1)


def _run(arguments: list[str]) -> int:
    import io

    from metalbench.harness.cli.app import app
    from metalbench.harness.errors import MetalbenchError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks × or µ is no reason to lose a table
    try:
        app(_with_default_resume(arguments))
    except MetalbenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:  # the cache or a temporary folder, above all
        print(f"bench: {error}; see that the place exists, may be written to and is not full.", file=sys.stderr)
        return 2
    return 0


def _with_default_resume(arguments: list[str]) -> list[str]:
    """``--resume`` may stand alone, which the option parser has no notion of: it then means the last run left unfinished."""
    from metalbench.harness.cli.planning import UNFINISHED

    out = []
    for argument, following in zip(arguments, [*arguments[1:], "-"], strict=True):
        out.append(argument)
        if argument == "--resume" and following.startswith("-"):
            out.append(UNFINISHED)
    return out


if __name__ == "__main__":
    main()
