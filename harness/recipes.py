"""Environments as data: what each is made of, what a user asks for on the command line, and what is known not to work.

The list is ``environments.toml`` beside this file, followed by the user's own from ``bench.toml``. A recipe says how an environment is
made; ``provisioning`` makes it, and ``environments`` finds it.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier
from packaging.utils import canonicalize_name

from metalbench.harness.errors import ConfigError, unknown
from metalbench.harness.recipe import CURRENT, SYSTEMS, Recipe
from metalbench.harness.requirements import in_range, names_of, package_of, parsed
from metalbench.harness.specification import specified, title

FILE = Path(__file__).with_name("environments.toml")
LOCKS = str(Path(__file__).with_name("locks"))
PYTHONS = ("3.11", "3.12", "3.13", "3.14")  #: that environments are locked for, where their recipes admit them


class KnownFailure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Packages that a resolver puts together and with which ``backends`` then fail: all ``packages`` met, none of ``without`` there."""

    backends: list[str]
    packages: list[str]
    without: list[str] = []
    systems: list[str] = msgspec.field(default_factory=lambda: list(SYSTEMS))
    reason: str
    remedy: str

    @property
    def names(self) -> list[str]:
        """The packages, canonical."""
        return [canonicalize_name(Requirement(text).name) for text in self.packages]

    def applies(self, versions: Mapping[str, str], system: str) -> bool:
        """``versions``: canonical distribution name → version."""
        wanted = zip(self.names, map(Requirement, self.packages), strict=True)
        met = all(name in versions and want.specifier.contains(versions[name], prereleases=True) for name, want in wanted)
        return system in self.systems and met and not any(name in versions for name in self.without)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    environments: dict[str, Recipe]
    known_to_fail: list[KnownFailure]


class Recipes:
    """Every recipe by name: the user's own first, since the first that serves a backend is its default. ``own_locks``: their locks."""

    def __init__(self, own: Mapping[str, Recipe] | None = None, own_locks: str = "") -> None:
        file = msgspec.convert(tomllib.loads(FILE.read_text("utf-8")), _File)
        self.known_failures = file.known_to_fail
        for name, recipe in (own or {}).items():
            _validate(name, recipe)
        self.by_name = _placed(own or {}, own_locks)
        self.by_name |= {name: recipe for name, recipe in _placed(file.environments, LOCKS).items() if name not in self.by_name}

    def named(self, name: str) -> Recipe:
        if name not in self.by_name:
            raise unknown("environment", name, self.by_name)
        return self.by_name[name]

    def serving(self, backend: str, system: str = sys.platform) -> list[Recipe]:
        """Those in which the backend runs on this system, the one made for it alone before the one that holds all."""
        return [recipe for recipe in self.by_name.values() if backend in recipe.backends and recipe.fits(system) and not recipe.on_request]

    def known_failure(self, backends: Sequence[str], versions: Mapping[str, str], system: str = sys.platform) -> KnownFailure | None:
        """Why one of the backends will not work with these packages, though they resolve."""
        concerned = (failure for failure in self.known_failures if set(failure.backends) & set(backends))
        return next((failure for failure in concerned if failure.applies(versions, system)), None)

    def derived(self, backend: str, specification: str, alternatives: Sequence[str]) -> Recipe:
        """The backend's own recipe with other requirements, such as ``torch==2.12.1`` or a nightly index and ``torch``.

        A requirement takes the place of the one for the same package, and keeps its extras. ``alternatives`` are the distributions
        that hold the framework: naming one leaves out the others.
        """
        given = specified(backend, specification)
        name = f"{backend}:{title(given)}"
        own = alternatives[:1] if any(package_of(text) is None and not text.startswith("-") for text in given) else []  # a folder
        names = {*names_of(given), *own}
        others = {canonicalize_name(name) for name in alternatives}
        replaced = names | (others if names & others else set())
        base = self._base(backend, replaced)
        kept = [text for text in base.requirements if package_of(text) not in replaced]
        extras: dict[str | None, set[str]] = {}
        for text in base.requirements:
            extras.setdefault(package_of(text), set()).update(_extras(text, base))
        given = [_with_extras(text, extras.get(package_of(text), set())) for text in given]
        return msgspec.structs.replace(base, name=name, backends=[backend], requirements=[*kept, *given], note="", locks="")

    def _base(self, backend: str, names: set[str]) -> Recipe:
        """The recipe to begin with: one that names what is replaced, and is for this system, before one that does or is not."""
        candidates = [recipe for recipe in self.by_name.values() if backend in recipe.backends and not recipe.on_request]
        ranked = sorted(candidates, key=lambda recipe: (not names & set(names_of(recipe.requirements)), not recipe.fits()))
        return ranked[0] if ranked else Recipe(backends=[backend], requirements=[])


def admits(recipe: Recipe, python: str) -> bool:
    """Whether the environment can be made with a Python of this version."""
    return in_range(recipe.python, python)


def _extras(text: str, base: Recipe) -> set[str]:
    """The extras that a requirement of the recipe asks for on the system it is for."""
    want = parsed(text)
    system = sys.platform if sys.platform in base.systems else base.systems[0]
    return want.extras if want is not None and (want.marker is None or want.marker.evaluate({"sys_platform": system})) else set()


def _with_extras(text: str, extras: set[str]) -> str:
    """The requirement or the wheel with these extras, unless it names its own."""
    want = parsed(text)
    if not extras or (want is not None and want.extras):
        return text
    want = want or Requirement(f"{package_of(text)} @ {Path(text).as_uri()}")
    want.extras = extras
    return str(want)


def _placed(recipes: Mapping[str, Recipe], locks: str) -> dict[str, Recipe]:
    return {name: msgspec.structs.replace(recipe, name=name, locks=locks) for name, recipe in recipes.items()}


def _validate(name: str, recipe: Recipe) -> None:
    """A user's own recipe, as far as it can be judged without resolving it."""
    where = f"environments.{name} in bench.toml"
    if name in {CURRENT, ".", ".."} or not name.isprintable() or any(character in name for character in ":/\\"):
        raise ConfigError(f"{where} can't be called so: the name is taken, or has a colon or a slash; choose another.")
    if not recipe.backends or not recipe.requirements:
        raise ConfigError(f"{where} needs at least one of `backends` and one of `requirements`.")
    if not recipe.systems or set(recipe.systems) - set(SYSTEMS):
        raise ConfigError(f"{where}: systems = {recipe.systems} must name some of {', '.join(SYSTEMS)}.")
    try:
        admitted = [version for version in PYTHONS if admits(recipe, f"{version}.9")]
    except InvalidSpecifier as error:
        raise ConfigError(f'{where}: python = "{recipe.python}" is not a range such as ">=3.11".') from error
    if not admitted:
        raise ConfigError(f'{where}: python = "{recipe.python}" admits none of {", ".join(PYTHONS)}; widen it.')
