"""Managed environments: made from a recipe, whole or not at all, locked, checked and removed.

Each is a folder of its own, which a finished one is renamed into. While it is made, a janitor stands by: a small process that removes
what is half-made when whoever makes it ends, even by SIGKILL.
"""

from __future__ import annotations

import contextlib
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock
import msgspec

from metalbench.harness.environments import Environment, cache_folder, contents, home, place, slug
from metalbench.harness.errors import UsageError
from metalbench.harness.locking import locked, lowest_python, refuse_known_failure
from metalbench.harness.recipe import SYSTEMS, Recipe
from metalbench.harness.recipes import Recipes, admits
from metalbench.harness.requirements import pinned
from metalbench.harness.uv import UvError, divided, resolve, uv

NOTE = "environment.json"  #: inside a managed environment: what it was made from


class Made(msgspec.Struct, frozen=True):
    """A managed environment as it was made: ``pins`` are the resolver's lines, ``python`` its version."""

    recipe: Recipe
    pins: list[str]
    python: str


def made(name: str) -> Made | None:
    """What the managed environment of this name was made of; None where there is none."""
    try:
        return msgspec.json.decode((place(name) / NOTE).read_bytes(), type=Made)
    except (OSError, msgspec.DecodeError):
        return None


def all_made() -> dict[str, Made]:
    """Every managed environment by name."""
    found = []
    for note in sorted(home().glob(f"*/{NOTE}")):
        with contextlib.suppress(msgspec.DecodeError):  # of a version that is no longer understood
            found.append(msgspec.json.decode(note.read_bytes(), type=Made))
    return {one.recipe.name: one for one in found}


def environment(recipe: Recipe) -> Environment:
    """The managed environment of a recipe, its ``python`` empty where it hasn't been created."""
    python = str(place(recipe.name) / "bin" / "python") if made(recipe.name) else ""
    return Environment(recipe.name, python, recipe.variables)


def create(recipe: Recipe, recipes: Recipes, on_step: Callable[[str], None]) -> Made:
    """Make the environment. UsageError where it can't work here or is known to fail, UvError with uv's reason.

    Killed at any moment it leaves nothing behind; one that is already there is replaced at the end.
    """
    if not recipe.fits():
        refuse_known_failure(
            recipe, recipes, resolve(recipe.all_requirements(), python=lowest_python(recipe), system=recipe.systems[0], macos=recipe.macos)
        )
        wanted = " or ".join(SYSTEMS.get(system, system) for system in recipe.systems)
        raise UsageError(f"The environment {recipe.name} is for {wanted}, not for this machine; `bench env list` shows which are for it.")
    on_step("resolving")
    home().mkdir(parents=True, exist_ok=True)
    with _half_made() as (scratch, group):
        python = sys.executable if admits(recipe, platform.python_version()) else recipe.python
        uv("venv", "--quiet", "--no-project", "--relocatable", "--python", python, str(scratch), group=group)
        inside = Environment("scratch", str(scratch / "bin" / "python"))
        found = contents(inside)
        if found is None:
            raise UvError(f"the Python that uv took for {recipe.name} does not run")
        pins = resolve([*locked(recipe), *recipe.all_requirements()], python=found.python, macos=recipe.macos)
        refuse_known_failure(recipe, recipes, pins)
        _, options = divided(recipe.requirements)
        command = ["pip", "install", "--python", inside.python, "--no-deps", "-r", "-", *options]
        on_step(f"{len(pins)} packages")
        uv(*command, given="\n".join(pins), on_step=on_step, group=group, macos=recipe.macos)
        result = Made(recipe, pins, found.python)
        (scratch / NOTE).write_bytes(msgspec.json.format(msgspec.json.encode(result)))
        with _alone(recipe.name):
            remove(recipe.name)
            scratch.rename(place(recipe.name))
    return result


def remove(name: str) -> bool:
    """Remove the managed environment; whether there was one. Renamed first, so that no half of it is ever found."""
    if not place(name).exists():
        return False
    with _half_made() as (scratch, _):
        place(name).rename(scratch / "removed")
    return True


def problems(one: Made, recipes: Recipes) -> list[str]:
    """What is wrong with a managed environment now; nothing if it is as it was made."""
    inside = Environment(one.recipe.name, str(place(one.recipe.name) / "bin" / "python"))
    found = contents(inside)
    if found is None:
        return ["its Python does not run"]
    wrong = [
        f"{name} {found.versions.get(name, 'is gone')}, not {version}"
        for name, version in pinned(one.pins).items()
        if found.versions.get(name, "").partition("+")[0] != version.partition("+")[0]
    ]
    if (failure := recipes.known_failure(one.recipe.backends, found.versions)) is not None:
        wrong.append(failure.reason)
    recipe = recipes.by_name.get(one.recipe.name)
    if recipe is not None and recipe.all_requirements() != one.recipe.all_requirements():
        wrong.append("its recipe has changed since")
    try:
        uv("pip", "check", "--python", inside.python)
    except UvError as error:
        wrong.append(str(error))
    return wrong


def _alone(name: str) -> filelock.BaseFileLock:
    """Two who make the same environment put it in its place one after the other."""
    locks = cache_folder() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    return filelock.FileLock(locks / f"{slug(name)}.lock")


@contextlib.contextmanager
def _half_made() -> Iterator[tuple[Path, int]]:
    """(a folder that is gone afterwards, a process group that is ended first), whatever becomes of this process."""
    scratch = Path(tempfile.mkdtemp(prefix=".half-made-", dir=home()))
    janitor = subprocess.Popen(
        [sys.executable, "-S", "-c", _JANITOR, str(scratch)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    assert janitor.stdin is not None
    try:
        yield scratch, janitor.pid
    finally:
        janitor.stdin.close()
        janitor.wait()
        shutil.rmtree(scratch, ignore_errors=True)


#: Waits until its standard input is closed, by us or by our end; then ends what still writes and removes the folder.
_JANITOR = """
import os, shutil, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stdin.buffer.read()
os.killpg(0, signal.SIGTERM)
for _ in range(100):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.exists(sys.argv[1]):
        break
    time.sleep(0.05)
"""
