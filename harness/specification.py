"""What ``--env BACKEND:…`` says of packages: requirements, files that hold them, and options that say where they come from."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from metalbench.harness.errors import UsageError
from metalbench.harness.requirements import parsed

FLAGS = ("--pre", "--no-index")
VALUED = ("--index", "--index-url", "--extra-index-url", "--default-index", "--find-links", "--index-strategy", "--prerelease")
SHORT = {"-i": "--index-url", "-f": "--find-links"}


def specified(backend: str, specification: str) -> list[str]:
    """Its parts: a requirement, a file's absolute path, or an option of ``uv pip`` with its value. UsageError for anything else."""
    try:
        words = iter(shlex.split(re.sub(r"\s*@\s*(?=[\w+]+:)", "@", specification)))  # a direct reference is one word
        parts = [_option(word, words) if word.startswith("-") else _package(word, backend) for word in words]
    except ValueError as error:
        raise UsageError(f"--env {backend}:{specification} is not readable: {error}.") from error
    if not parts:
        raise UsageError(f"--env {backend}: names no environment; give --env {backend}:NAME or a requirement after the colon.")
    return parts


def title(parts: Sequence[str]) -> str:
    """How an environment of these parts is called: what is asked for, without the places, which may be secret or this machine's.

    Where there are places, a hash of them tells two environments apart.
    """
    shown, places = [], []
    for text in parts:
        want = parsed(text)
        if want is not None:
            places += [want.url] if want.url else []
            want.url = want.marker = None
            shown.append(str(want))
        else:
            shown += [] if text.startswith("-") else [Path(text).name]
            places.append(text)
    mark = [hashlib.sha256(" ".join(places).encode()).hexdigest()[:6]] if places else []
    return " ".join([*shown, *mark])


def existing(word: str) -> Path | None:
    """The file or folder that a word names; only one that looks like a path is taken for one."""
    if "/" not in word and not word.endswith((".whl", ".tar.gz")):
        return None
    try:
        path = Path(word).expanduser().absolute()  # not resolved: a virtual environment's Python is a link
        return path if path.exists() else None
    except (RuntimeError, OSError):  # a home that isn't there, a name that is too long
        return None


def _option(word: str, following: Iterator[str]) -> str:
    """``word``, which begins with a dash, and its value, which may be the word that follows."""
    name, equals, value = word.partition("=")
    name = SHORT.get(name, name)
    if name in FLAGS and not equals:
        return name
    if name not in VALUED:
        raise ValueError(f"{word} is none of the options {', '.join([*FLAGS, *VALUED])}")
    value = value if equals else next(following, "")
    if not value or value.startswith("-"):
        raise ValueError(f"{name} needs a value")
    return f"{name} {existing(value) or value}"


def _package(word: str, backend: str) -> str:
    if (path := existing(word)) is not None:
        return str(path)
    if parsed(word) is not None:
        return word
    problem = "is no file that exists" if "/" in word or word.endswith(".whl") else "is not a requirement"
    example = f"{backend.partition('-')[0]}==1.2"
    raise ValueError(
        f"{word!r} {problem}: give a name of `bench env list`, a requirement such as {example}, a wheel, or a path to a Python"
    )
