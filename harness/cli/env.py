"""``bench env``: the environments in which backends run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    from metalbench.harness.recipe import Recipe

app = typer.Typer(help="List, make, check, lock and remove environments.", no_args_is_help=True, rich_markup_mode=None)

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Names of `bench env list`, or BACKEND:REQUIREMENT.")]


@app.command("list")
def list_() -> None:
    """Every environment: what it serves, whether it is made, and what to know about it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from metalbench.harness.provisioning import all_made
    from metalbench.harness.recipe import SYSTEMS
    from metalbench.harness.requirements import pinned

    recipes = context.load().recipes
    there = all_made()
    known = recipes.by_name | {name: one.recipe for name, one in there.items() if name not in recipes.by_name}
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("environment", "serves", "state", "holds", "note"):
        table.add_column(heading, overflow="fold")
    for name, recipe in sorted(known.items(), key=lambda item: (item[0] not in there, not item[1].fits())):
        own = there.get(name)
        state = f"made, Python {own.python}" if own else "not made" if recipe.fits() else f"for {_systems(recipe, SYSTEMS)}"
        asked = pinned_names(recipe)
        pins = pinned(own.pins) if own else {}
        holds = ", ".join(f"{package} {pins[package]}" for package in asked if package in pins) or ", ".join(recipe.requirements)
        table.add_row(*map(Text, (name, " ".join(recipe.backends), state, holds, recipe.note)))
    Console(width=None if sys.stdout.isatty() else 200).print(table)


@app.command()
def create(names: Names = None) -> None:
    """Make environments, each whole or not at all. What is there already and unchanged is left alone."""
    from metalbench.harness import provisioning

    ctx = context.load()
    for recipe in _recipes(names, ctx, "create"):
        there = provisioning.made(recipe.name)
        if there is not None and there.recipe.all_requirements() == recipe.all_requirements():
            print(f"{recipe.name}: is there already, Python {there.python}")
            continue
        make(recipe, ctx)


@app.command()
def check(names: Names = None) -> None:
    """See whether environments are as they were made; all by default. Exit status 1 if one is not."""
    from metalbench.harness import provisioning

    ctx = context.load()
    there = provisioning.all_made()
    wrong = False
    for name in dict.fromkeys(names or there):
        if name not in there:
            recipe = _recipes([name], ctx, "check")[0]
            raise UsageError(f"The environment {recipe.name} has not been made; `bench env create {name}` makes it.")
        found = provisioning.problems(there[name], ctx.recipes)
        remedy = f"; bench env remove {name}, then create it again" if found else ""
        print(f"{name}: {'; '.join(found) or 'ok'}{remedy}", flush=True)
        wrong |= bool(found)
    if not there and not names:
        print("No environment has been made yet; `bench env create NAME` makes one.")
    sys.exit(int(wrong))


@app.command()
def lock(
    names: Names = None,
    check: Annotated[bool, typer.Option("--check", help="Only see whether each lock still resolves; write nothing.")] = False,
) -> None:
    """Resolve environments for every system and Python they are for, and write their lock files; all by default."""
    from concurrent.futures import ThreadPoolExecutor

    from metalbench.harness import locking

    ctx = context.load()
    chosen = _recipes(names, ctx, "lock") if names else list(ctx.recipes.by_name.values())
    places = [(recipe, system) for recipe in chosen for system in recipe.systems]
    wrong = False
    with ThreadPoolExecutor(max_workers=4) as pool:  # nearly all of it is waiting for the index
        if not check:
            for written in pool.map(lambda place: locking.lock(place[0], ctx.recipes, place[1]), places):
                print(written)
        problems = pool.map(lambda place: locking.lock_problems(place[0], ctx.recipes, place[1]), places)
        for (recipe, system), found in zip(places, problems, strict=True):
            print(f"{recipe.name} on {system}: {'; '.join(found) or 'resolves'}", flush=True)
            wrong |= bool(found)
    sys.exit(int(wrong))


@app.command()
def remove(names: Names = None) -> None:
    """Remove environments that were made here; the others stay as they are."""
    from metalbench.harness import provisioning

    if not names:
        raise UsageError("`bench env remove` needs the names of the environments to remove; `bench env list` shows them.")
    there = provisioning.all_made()
    for name in dict.fromkeys(names):
        if name not in there:
            raise UsageError(f"There is no environment called {name!r} here; made are: {', '.join(there) or 'none'}.")
    for name in dict.fromkeys(names):
        provisioning.remove(name)
        print(f"{name}: removed")


def make(recipe: Recipe, ctx: context.Context, *, quiet: bool = False) -> None:
    """Make one environment and say how it goes."""
    from metalbench.harness import provisioning
    from metalbench.harness.requirements import pinned

    with _progress(recipe.name, quiet=quiet) as on_step:
        done = provisioning.create(recipe, ctx.recipes, on_step)
    if quiet:
        return
    pins = pinned(done.pins)
    held = ", ".join(f"{name} {pins[name]}" for name in pinned_names(recipe) if name in pins)
    print(f"{recipe.name}: made, Python {done.python}, {held}{f'; {recipe.note}' if recipe.note else ''}", flush=True)


def pinned_names(recipe: Recipe) -> list[str]:
    """The packages that a recipe asks for by name."""
    from metalbench.harness.requirements import names_of

    return names_of(recipe.requirements)


def _recipes(names: list[str] | None, ctx: context.Context, verb: str) -> list[Recipe]:
    from metalbench.harness.columns import parse

    chosen = list(dict.fromkeys(names or ()))
    if not chosen:
        raise UsageError(f"`bench env {verb}` needs the name of an environment; `bench env list` shows them.")
    found = {wanted.recipe.name: wanted.recipe for name in chosen for wanted in parse(name, ctx.catalog, ctx.recipes) if wanted.recipe}
    if not found:
        raise UsageError(f"{chosen[0]} is an interpreter that is there already; `bench run --env` takes it as it is.")
    return list(found.values())


@contextmanager
def _progress(name: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line that lives while the environment is made, in a terminal; plain lines elsewhere."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    if quiet or not console.is_terminal:
        yield lambda step: None if quiet else print(f"{name}: {step}", flush=True)
        return
    with console.status(escape(f"{name}: starting")) as status:
        yield lambda step: status.update(escape(f"{name}: {step}"))


def _systems(recipe: Recipe, titles: dict[str, str]) -> str:
    return " or ".join(titles.get(system, system) for system in recipe.systems)
