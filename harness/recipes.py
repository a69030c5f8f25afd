"""Environments as data: what each is made of, what a user asks for on the command line, and what is known not to work.

The list is ``environments.toml`` beside this file, followed by the user's own from ``bench.toml``. A recipe says how an environment is
made; ``provisioning`` makes it, and ``environments`` finds it.
"""

from __future__ import annotations

import platform
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from metalbench.harness.errors import ConfigError, unknown
from metalbench.harness.requirements import in_range, names_of, parsed, specified

FILE = Path(__file__).with_name("environments.toml")
LOCKS = str(Path(__file__).with_name("locks"))
WORKER_NEEDS = ("msgspec>=0.19", "numpy", "psutil>=6.0")  #: beside the framework; our own code comes by path
OLDEST_PYTHON = ">=3.11"  #: that our code runs in
SYSTEMS = {"darwin": "macOS on Apple Silicon", "linux": "Linux"}


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an environment is made of.

    ``requirements`` are PEP 508 requirements, paths of wheels, and options of ``uv pip`` that say where packages come from, one an
    entry; ``python`` is a PEP 440 range; ``systems`` are values of ``sys.platform``.
    """

    name: str = ""  #: given by its place in the file
    backends: list[str]
    requirements: list[str]
    systems: list[str] = msgspec.field(default_factory=lambda: list(SYSTEMS))
    python: str = OLDEST_PYTHON
    macos: str = "14.0"  #: the oldest it is for; for an older one uv would silently take releases that still supported it
    variables: dict[str, str] = {}
    note: str = ""
    on_request: bool = False  #: taken only where it is asked for, never by itself
    locks: str = ""  #: the folder of its lock files, given by where it is defined

    def fits(self, system: str = sys.platform) -> bool:
        return system in self.systems and (system != "darwin" or sys.platform != "darwin" or platform.machine() == "arm64")

    def all_requirements(self) -> list[str]:
        return [*self.requirements, *WORKER_NEEDS]


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
        base = next((recipe for recipe in self.by_name.values() if backend in recipe.backends), None)
        if base is None:
            base = Recipe(backends=[backend], requirements=[])
        given = specified(backend, specification)
        wanted = {text: parsed(text) for text in given}
        names = set(names_of(given))
        replaced = names | ({canonicalize_name(name) for name in alternatives} if names & set(alternatives) else set())
        kept, extras = [], {}
        for text in base.requirements:
            own = parsed(text)
            if own is None or canonicalize_name(own.name) not in replaced:
                kept.append(text)
            elif own.marker is None or own.marker.evaluate({"sys_platform": base.systems[0] if len(base.systems) == 1 else sys.platform}):
                extras[canonicalize_name(own.name)] = own.extras
        for text, want in wanted.items():
            if want is not None and not want.extras and extras.get(canonicalize_name(want.name)):
                want.extras = extras[canonicalize_name(want.name)]
                given[given.index(text)] = str(want)
        name = f"{backend}:{specification}"
        return msgspec.structs.replace(base, name=name, backends=[backend], requirements=[*kept, *given], note="", locks="")


def admits(recipe: Recipe, python: str) -> bool:
    """Whether the environment can be made with a Python of this version."""
    return in_range(recipe.python, python)


def _placed(recipes: Mapping[str, Recipe], locks: str) -> dict[str, Recipe]:
    return {name: msgspec.structs.replace(recipe, name=name, locks=locks) for name, recipe in recipes.items()}


def _validate(name: str, recipe: Recipe) -> None:
    """A user's own recipe, as far as it can be judged without resolving it."""
    try:
        SpecifierSet(recipe.python)
    except InvalidSpecifier as error:
        raise ConfigError(f'environments.{name} in bench.toml: python = "{recipe.python}" is not a range such as ">=3.11".') from error
    if not recipe.backends or not recipe.requirements:
        raise ConfigError(f"environments.{name} in bench.toml needs at least one of `backends` and one of `requirements`.")
