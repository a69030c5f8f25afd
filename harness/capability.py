"""What a backend can do in an environment; and where it can't, what kind of trouble that is and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from metalbench.harness.catalog import Catalog
from metalbench.harness.environments import Column, Contents, contents, home
from metalbench.harness.host import accelerators
from metalbench.harness.protocol import Cause, Offer
from metalbench.harness.recipe import CURRENT, OLDEST_PYTHON, WORKER_NEEDS
from metalbench.harness.recipes import Recipes
from metalbench.harness.requirements import in_range, missing


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """A backend's answer. ``offers``: workload → its variants, of those it can do; ``absent``: workload → why not, of others.

    Where the status isn't ``ok``, ``cause`` says what kind of trouble it is and ``remedy`` what to do about it.
    """

    status: Literal["ok", "unavailable", "failed", "crashed", "timeout", "oom"]
    cause: Cause = ""
    reason: str = ""
    remedy: str = ""
    facts: dict[str, str] = {}
    offers: dict[str, Offer] = {}
    absent: dict[str, str] = {}

    @property
    def why(self) -> str:
        """Reason and remedy in one sentence, for a record."""
        return "; ".join(filter(None, [self.reason, self.remedy]))


def obstacle(column: Column, catalog: Catalog, recipes: Recipes) -> Capability | None:
    """What keeps the backend from running, as far as that is known without starting its framework."""
    return next(_obstacles(column, catalog, recipes), None)


def _obstacles(column: Column, catalog: Catalog, recipes: Recipes) -> Iterator[Capability]:
    needed, environment = catalog.device_kind(column.backend).accelerator, column.environment
    if needed and needed not in accelerators():
        device = needed.upper() if needed == "cuda" else needed.title()
        yield _unavailable("no device", f"this machine has no {device} device")
    if not environment.python:
        reason = f"the environment {environment.name} has not been created"
        yield _unavailable("not installed", reason, f"bench env create {shlex.quote(environment.name)}")
    found = contents(environment)
    if found is None and Path(environment.python).is_relative_to(home()):
        gone = not Path(environment.python).parents[1].exists()
        name, what = shlex.quote(environment.name), "has been removed" if gone else "has no Python any more that runs"
        remove = "" if gone else f"bench env remove {name}, then "
        yield _unavailable("not installed", f"the environment {environment.name} {what}", f"{remove}bench env create {name}")
    elif found is None:
        yield _unavailable("broken", f"{environment.python} is not a Python that runs")
    else:
        yield from _lacks(column, found)
        if (failure := recipes.known_failure([column.backend], found.versions)) is not None:
            yield _unavailable("mismatch", failure.reason, failure.remedy)


def _lacks(column: Column, found: Contents) -> Iterator[Capability]:
    """What a worker needs of an interpreter that was there already; a managed environment has it."""
    python = column.environment.python
    if not in_range(OLDEST_PYTHON, found.python):
        yield _unavailable("broken", f"{python} is Python {found.python}, and a worker needs {OLDEST_PYTHON}")
    if lacking := missing(WORKER_NEEDS, found.versions):
        command = shlex.join(["uv", "pip", "install", "--python", python, *lacking])
        yield _unavailable("not installed", f"{found.prefix} lacks what a worker needs: {', '.join(lacking)}", command)


def _unavailable(cause: Cause, reason: str, remedy: str = "") -> Capability:
    return Capability(status="unavailable", cause=cause, reason=reason, remedy=remedy)


def remedy(cause: Cause, column: Column, catalog: Catalog, recipes: Recipes) -> str:
    """What to do about a trouble of this kind."""
    backend, environment = column.backend, column.environment
    framework, _ = catalog.backend(backend)
    other = next((recipe.name for recipe in recipes.serving(backend) if recipe.name != environment.name), None)
    create = f"bench env create {other}" if other else ""
    package = framework.install or (framework.builds or [framework.package])[0]
    look = f"bench env check {shlex.quote(environment.name)}" if environment.name in recipes.by_name else ""
    importing = shlex.join([environment.python, "-c", f"import {framework.package}"])
    broken = look or (create if environment.name == CURRENT else "") or f"see what this says: {importing}"
    remedies: dict[Cause, str] = {
        "no device": "use a machine that has one",
        "not installed": look or create or f"install {package} in it",
        "no answer": "try again: a second start finds it in the disk's cache",
        "wrong answer": f"try another release: bench run --env {backend}:{package}==VERSION",
    }
    return remedies.get(cause, broken)
