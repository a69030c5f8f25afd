"""Which backends are measured, and in which environment each: what was asked for, else what there is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from metalbench.harness import provisioning
from metalbench.harness.catalog import Catalog
from metalbench.harness.environments import Column, Environment, current
from metalbench.harness.errors import UsageError, unknown
from metalbench.harness.host import accelerators
from metalbench.harness.recipe import Recipe
from metalbench.harness.recipes import Recipes
from metalbench.harness.requirements import package_of
from metalbench.harness.specification import existing


class Wanted(NamedTuple):
    """A column as it was asked for. ``recipe``: what its environment is made of, None for an interpreter that is there."""

    column: Column
    recipe: Recipe | None = None


def choose(backends: Sequence[str], environments: Sequence[str], catalog: Catalog, recipes: Recipes) -> list[Wanted]:
    """The columns for ``--backend`` and ``--env``; where neither is given, every backend whose device this machine has.

    ``--env`` alone measures its own backends only. UsageError for names that aren't there.
    """
    asked = [wanted for text in environments for wanted in parse(text, catalog, recipes)]
    for name in backends:
        catalog.backend(name)
    served = list(dict.fromkeys(wanted.column.backend for wanted in asked))
    chosen = (
        list(backends) or served or [name for name in catalog.backends if catalog.device_kind(name).accelerator in accelerators() | {""}]
    )
    if idle := [name for name in served if name not in chosen]:
        raise UsageError(f"--env names an environment for {' and '.join(idle)}, which --backend leaves out; add it there.")
    found = []
    for backend in chosen:
        own = [wanted for wanted in asked if wanted.column.backend == backend]
        found += own or [default(backend, recipes)]
    return _distinct(found)


def default(backend: str, recipes: Recipes) -> Wanted:
    """The first managed environment that serves the backend; else the interpreter that runs this."""
    for recipe in recipes.serving(backend):
        if (environment := provisioning.environment(recipe)).python:
            return Wanted(Column(backend, environment), recipe)
    return Wanted(Column(backend, current()))


def parse(text: str, catalog: Catalog, recipes: Recipes) -> list[Wanted]:
    """``NAME``, for all its backends; or ``BACKEND:`` and a name, a path to a Python, or requirements."""
    backend, colon, specification = text.partition(":")
    if not colon:
        if text not in recipes.by_name and (package := package_of(text)) is not None and package != text:
            own = next((name for name, (framework, _) in catalog.backends.items() if package in framework.builds), "BACKEND")
            raise UsageError(f"{text!r} doesn't say for which backend; put that before it, as in {own}:{text}.")
        recipe = recipes.named(text)
        return [Wanted(Column(_known(own, recipe, catalog), provisioning.environment(recipe)), recipe) for own in recipe.backends]
    framework, _ = catalog.backend(backend)
    specification = specification.strip()
    if specification in recipes.by_name:
        recipe = recipes.named(specification)
        if backend not in recipe.backends:
            raise UsageError(f"The environment {specification} does not serve {backend}, but {', '.join(recipe.backends)}.")
    elif (python := _interpreter(specification)) is not None:
        return [Wanted(Column(backend, Environment(_called(python), str(python))))]
    elif _looks_like_a_name(specification) and specification not in [*framework.distributions, *framework.builds]:
        raise unknown("environment", specification, recipes.by_name)
    else:
        recipe = recipes.derived(backend, specification, framework.builds)
    return [Wanted(Column(backend, provisioning.environment(recipe)), recipe)]


def _looks_like_a_name(specification: str) -> bool:
    """Words and hyphens alone: a misspelt name is answered better than a package that no index has."""
    return specification[:1] != "-" and specification.replace("-", "").replace("_", "").isalpha()


def _known(backend: str, recipe: Recipe, catalog: Catalog) -> str:
    if backend not in catalog.backends:
        raise UsageError(f"The environment {recipe.name} names {unknown('backend', backend, catalog.backends)}")
    return backend


def _interpreter(specification: str) -> Path | None:
    """The Python that a path names, or that a virtual environment has; None where it names neither."""
    path = existing(specification)
    if path is None or path.suffix == ".whl":
        return None
    python = path / "bin" / "python" if path.is_dir() else path
    return python if python.is_file() and os.access(python, os.X_OK) else None


def _called(python: Path) -> str:
    """Short, the same wherever the layout is the same, and no recipe's name: the virtual environment's folder."""
    prefix = python.parent.parent
    return f"python:{f'{prefix.parent.name}/' if prefix.name in {'.venv', 'venv', 'env'} else ''}{prefix.name or python.name}"


def _distinct(found: list[Wanted]) -> list[Wanted]:
    """Each once; interpreters of one short name are told apart by a hash of their paths."""
    unique = list({(wanted.column.key, wanted.column.environment.python): wanted for wanted in found}.values())
    names = [wanted.column.key for wanted in unique]
    out = []
    for wanted in unique:
        backend, environment = wanted.column.backend, wanted.column.environment
        if names.count(wanted.column.key) > 1:
            mark = hashlib.sha256(environment.python.encode()).hexdigest()[:6]
            environment = msgspec.structs.replace(environment, name=f"{environment.name} {mark}")
        out.append(Wanted(Column(backend, environment), wanted.recipe))
    return out
