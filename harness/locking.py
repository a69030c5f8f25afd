"""Lock files: a recipe resolved for each system it is for, committed beside it; and what must not be made though it resolves."""

from __future__ import annotations

import sys
from pathlib import Path

from metalbench.harness.errors import UsageError
from metalbench.harness.recipe import Recipe
from metalbench.harness.recipes import PYTHONS, Recipes, admits
from metalbench.harness.requirements import pinned
from metalbench.harness.uv import UvError, resolve


def lock(recipe: Recipe, recipes: Recipes, system: str) -> Path:
    """Resolve the recipe for a system and write its lock file. UsageError where what resolves is known to fail."""
    try:
        pins = resolve(recipe.all_requirements(), python=lowest_python(recipe), system=system, macos=recipe.macos)
    except UvError as error:
        raise UvError(f"{recipe.name} does not resolve for {system}: {error}") from error
    refuse_known_failure(recipe, recipes, pins, system)
    file = lock_file(recipe, system)
    file.parent.mkdir(parents=True, exist_ok=True)
    builds_left_out = [line.partition("+")[0] for line in pins]  # +cpu is how one index calls what another holds under the plain name
    head = f"# {recipe.name} on {system}, for Python {recipe.python}. Made by `bench env lock {recipe.name}`.\n"
    file.write_text(head + "\n".join(builds_left_out) + "\n", "utf-8")
    return file


def lock_problems(recipe: Recipe, recipes: Recipes, system: str) -> list[str]:
    """What is wrong with a recipe's lock for a system: it must resolve, as it stands, with every Python that the recipe admits."""
    pins_locked = locked(recipe, system)
    if not pins_locked:
        return [f"there is no lock for {system}: bench env lock {recipe.name}"]
    wrong = []
    for python in filter(lambda version: admits(recipe, f"{version}.9"), PYTHONS):
        try:
            pins = resolve([*pins_locked, *recipe.all_requirements()], python=python, system=system, macos=recipe.macos)
            refuse_known_failure(recipe, recipes, pins, system)
        except (UvError, UsageError) as error:
            wrong.append(f"on {system} with Python {python}: {error}")
    return wrong


def lock_file(recipe: Recipe, system: str) -> Path:
    return Path(recipe.locks) / f"{recipe.name}.{system}.txt"


def refuse_known_failure(recipe: Recipe, recipes: Recipes, pins: list[str], system: str | None = None) -> None:
    versions = pinned(pins)
    failure = recipes.known_failure(recipe.backends, versions, system or (sys.platform if recipe.fits() else recipe.systems[0]))
    if failure is not None:
        held = ", ".join(f"{name} {versions[name]}" for name in failure.names if name in versions)
        raise UsageError(f"The environment {recipe.name} would hold {held}: {failure.reason}; {failure.remedy}.")


def lowest_python(recipe: Recipe) -> str:
    return next(version for version in PYTHONS if admits(recipe, f"{version}.9"))


def locked(recipe: Recipe, system: str = sys.platform) -> list[str]:
    """The lines of the recipe's lock; none where it has no lock."""
    if not recipe.locks:
        return []
    try:
        return [line for line in lock_file(recipe, system).read_text("utf-8").splitlines() if not line.startswith("#")]
    except OSError:
        return []
