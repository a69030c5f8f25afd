"""What is said of packages: PEP 508 requirements, and the files that hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version


def pinned(lines: Sequence[str]) -> dict[str, str]:
    """Canonical name → version, of the lines ``name==version`` that a resolver prints."""
    found = (parsed(line) for line in lines)
    return {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in found if pin is not None and len(pin.specifier) == 1}


def names_of(requirements: Sequence[str]) -> list[str]:
    """The canonical names of what is asked for, each once; options and folders have none."""
    return list(dict.fromkeys(name for name in map(package_of, requirements) if name is not None))


def package_of(text: str) -> str | None:
    """The canonical name of a requirement's package, or of a wheel's or source archive's by its file name."""
    if (want := parsed(text)) is not None:
        return canonicalize_name(want.name)
    with suppress(InvalidWheelFilename):
        return parse_wheel_filename(Path(text).name)[0]
    with suppress(InvalidSdistFilename):
        return parse_sdist_filename(Path(text).name)[0]
    return None


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


def parsed(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None
