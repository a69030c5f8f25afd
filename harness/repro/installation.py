"""What to install so that a script runs with the packages that a cell was measured with."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from metalbench.backends.base import Framework
from metalbench.harness.recipes import Recipes
from metalbench.harness.requirements import parsed
from metalbench.results.record import Cell, Host


def command(framework: Framework, cell: Cell, facts: Mapping[str, str], host: Host, recipes: Recipes) -> str:
    """``pip install`` with the releases that the device named among its facts; another's record is not trusted with more than numbers."""
    versions: dict[str, str] = {canonicalize_name(name): version for name, text in facts.items() if (version := _public(text))}
    names: set[str] = {canonicalize_name(name) for name in framework.distributions}
    system = "darwin" if host.facts.get("system", "").startswith("Darwin") else "linux"
    wanted: dict[str, str] = {}
    for requirement in _requirements(framework, cell, versions, system, recipes):
        name = canonicalize_name(requirement.name)
        if name in names and (requirement.marker is None or requirement.marker.evaluate({"sys_platform": system})):
            wanted[name] = _pinned(requirement, versions, framework)
    builds: set[str] = {canonicalize_name(name) for name in framework.builds}
    for found, version in versions.items():
        if found in names | {"numpy"} and found not in wanted and not (found in builds and builds & set(wanted)):
            wanted[found] = f"{found}=={version}"
    return shlex.join(["pip", "install", *wanted.values()])


def _requirements(framework: Framework, cell: Cell, versions: Mapping[str, str], system: str, recipes: Recipes) -> list[Requirement]:
    """Of the environment that the cell was measured in; where that is the user's own, of the one that is most like it."""
    named = recipes.by_name.get(cell.environment)
    alike = [named] if named is not None else recipes.serving(cell.backend, system)
    lists = [recipe.requirements for recipe in alike] or [[framework.install or framework.package.partition(".")[0]]]
    wanted = [[want for text in texts if (want := parsed(text)) is not None] for texts in lists]

    def likeness(wants: list[Requirement]) -> int:
        names = {canonicalize_name(want.name) for want in wants} & {canonicalize_name(name) for name in framework.distributions}
        return sum(1 if name in versions else -1 for name in names)

    return max(wanted, key=likeness) if versions else wanted[0]


def _pinned(requirement: Requirement, versions: Mapping[str, str], framework: Framework) -> str:
    """The requirement at the release that was found, under whichever name of those that hold the same package."""
    name = canonicalize_name(requirement.name)
    builds = [canonicalize_name(build) for build in framework.builds]
    version = next((versions[one] for one in [name, *(builds if name in builds else [])] if one in versions), None)
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{f'=={version}' if version else requirement.specifier}"


def _public(text: str) -> str:
    """The version without what tells builds of it apart, which package indexes don't have; nothing for what is no version."""
    try:
        return Version(text).public
    except InvalidVersion:
        return ""
