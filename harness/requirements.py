"""What users and lists say of packages: PEP 508 requirements, paths of wheels, options that say where packages come from."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from metalbench.harness.errors import UsageError


def pinned(lines: Sequence[str]) -> dict[str, str]:
    """Canonical name → version, of the lines ``name==version`` that a resolver prints."""
    found = (parsed(line) for line in lines)
    return {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in found if pin is not None and len(pin.specifier) == 1}


def names_of(requirements: Sequence[str]) -> list[str]:
    """The canonical names of what is asked for, each once; of paths and options there is none."""
    found = (parsed(text) for text in requirements)
    return list(dict.fromkeys(canonicalize_name(want.name) for want in found if want is not None))


def missing(requirements: Sequence[str], versions: Mapping[str, str]) -> list[str]:
    """Those of the requirements that the installed ``versions``, by canonical name, don't meet."""
    wanted = {text: Requirement(text) for text in requirements}
    return [
        text
        for text, want in wanted.items()
        if not want.specifier.contains(versions.get(canonicalize_name(want.name), "0"), prereleases=True)
        or canonicalize_name(want.name) not in versions
    ]


def in_range(specifier: str, version: str) -> bool:
    return SpecifierSet(specifier).contains(Version(version), prereleases=True)


def specified(backend: str, specification: str) -> list[str]:
    """The specification's parts, paths made absolute, an option and its value kept together."""
    try:
        words = shlex.split(specification)
    except ValueError as error:
        raise UsageError(f"--env {backend}:{specification} is not readable: {error}; quote it as one argument.") from error
    parts: list[str] = []
    for word in words:
        if parts and parts[-1].startswith("--") and " " not in parts[-1] and "=" not in parts[-1] and parts[-1] != "--pre":
            parts[-1] += f" {word}"
        elif word.startswith("-"):
            parts.append(word)
        elif Path(word).expanduser().exists():
            parts.append(str(Path(word).expanduser().absolute()))
        elif parsed(word) is not None:
            parts.append(word)
        else:
            problem = "is no file that exists" if "/" in word or word.endswith(".whl") else "is not a requirement"
            remedy = (
                f"give a name of `bench env list`, a requirement such as {backend.partition('-')[0]}==1.2, a wheel, or a path to a Python"
            )
            raise UsageError(f"--env {backend}:{specification}: {word!r} {problem}; {remedy}.")
    if not parts:
        raise UsageError(f"--env {backend}: names no environment; give --env {backend}:NAME or a requirement after the colon.")
    return parts


def parsed(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None
