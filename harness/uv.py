"""The program uv, which finds Pythons, resolves requirements and installs packages, called with the user's own index settings."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import IO

from metalbench.harness.errors import MetalbenchError

#: What pip's variables are called in uv. pip separates by spaces; uv's find-links by commas.
PIP_TO_UV = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_NO_INDEX": "UV_OFFLINE",  # it has no variable for the option
    "PIP_CERT": "SSL_CERT_FILE",
    "PIP_TRUSTED_HOST": "UV_INSECURE_HOST",
}
TARGETS = {"darwin": "aarch64-apple-darwin", "linux": "x86_64-manylinux_2_35"}  #: what each system is called to resolve for
_FINDING = threading.Lock()  #: the search for the program asks Python's sysconfig, which is not made for threads

#: What two of them were called before; a user's own come first by either name.
OLDER = {"UV_DEFAULT_INDEX": "UV_INDEX_URL", "UV_INDEX": "UV_EXTRA_INDEX_URL"}
STEP = re.compile(r"^(Resolved|Downloading|Downloaded|Prepared|Building|Built|Installed|Checked)\b.*")


class UvError(MetalbenchError):
    """uv could not do it; the message is the gist of what it said."""


def variables(own: Mapping[str, str], macos: str = "") -> dict[str, str]:
    """The user's environment, with pip's index settings said in uv's words where uv's own are not given. ``macos``: the oldest meant."""
    out = dict(own)
    for pip, uv in PIP_TO_UV.items():
        if pip in own and uv not in own and OLDER.get(uv, uv) not in own:
            out[uv] = ",".join(own[pip].split()) if uv == "UV_FIND_LINKS" else own[pip]
    if "UV_INDEX" in out and "UV_INDEX" not in own:
        out.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")  # as pip does: the best of all indexes, not the first that has any
    if macos:
        out.setdefault("MACOSX_DEPLOYMENT_TARGET", macos)
    out.pop("VIRTUAL_ENV", None)  # each call names the interpreter it is about
    return out


def uv(
    *arguments: str,
    given: str = "",
    on_step: Callable[[str], None] = lambda _: None,
    group: int | None = None,
    macos: str = "",
) -> str:
    """Run uv with ``given`` on its standard input; what it printed. UvError with its reason if it fails.

    ``on_step`` is told each line of its progress. ``group``: the process group to run in, by default a new one, so that an interrupt
    in the terminal reaches us alone.
    """
    process = subprocess.Popen(
        [_program(), *arguments, "--no-progress", "--color", "never"],
        env=variables(os.environ, macos),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        process_group=0 if group is None else group,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdin.write(given)
        process.stdin.close()
        said = _follow(process.stderr, on_step)
        out = process.stdout.read()
        if process.wait() != 0:
            raise UvError(gist(said))
        return out
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def resolve(requirements: Sequence[str], *, python: str, system: str | None = None, macos: str = "") -> list[str]:
    """The requirements and all they need, as lines ``name==version``, for a version of Python and a system; None: this machine."""
    wanted, options = divided(requirements)
    target = [] if system is None else ["--python-platform", TARGETS[system]]
    bare = ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    printed = uv("pip", "compile", "-", *bare, *options, *target, "--python-version", python, given="\n".join(wanted), macos=macos)
    return [line for line in printed.splitlines() if line and not line.startswith(("#", "-"))]


@cache
def _program() -> str:
    with _FINDING:
        from uv import find_uv_bin  # noqa: PLC0415 - not needed unless an environment is made

        return find_uv_bin()


def divided(requirements: Sequence[str]) -> tuple[list[str], list[str]]:
    """(requirements, options with their values as further words)."""
    options = [word for text in requirements if text.startswith("-") for word in text.split(" ", 1)]
    return [text for text in requirements if not text.startswith("-")], options


def gist(said: Sequence[str]) -> str:
    """The last cause and the last hint of what uv said, each on one line however uv wrapped it."""
    paragraphs: list[str] = []
    for line in filter(None, (line.strip() for line in said if not STEP.match(line))):
        if re.match(r"(error|cause|hint|warning):", line) or not paragraphs:
            paragraphs.append(line)
        else:
            paragraphs[-1] += f" {line}"
    found = {kind: text.strip() for kind, _, text in (paragraph.partition(":") for paragraph in paragraphs)}
    chosen = [found[kind] for kind in ("cause", "hint") if kind in found] or paragraphs[-1:] or ["uv failed and said nothing"]
    return " ".join(" ".join(chosen).removeprefix("error: ").split())[:500]


def _follow(stream: IO[str], on_step: Callable[[str], None]) -> list[str]:
    lines = []
    for line in stream:
        lines.append(line.rstrip())
        if STEP.match(line):
            on_step(line.strip())
    return lines
