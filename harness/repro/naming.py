"""What the parts of a program that come from several modules are called in one: as in their modules, unless that means two things."""

from __future__ import annotations

import itertools
from collections.abc import Set
from typing import NamedTuple

from metalbench.harness.repro.modules import Import


class Own(NamedTuple):
    """What one of our modules defines; the program itself is the module without a name."""

    module: str
    name: str


class Builtin(NamedTuple):
    name: str


Entity = Own | Import | Builtin


class Naming:
    """Learns what identifiers stand for, module by module, then calls each thing by one name and each name one thing."""

    def __init__(self) -> None:
        self._meant: dict[tuple[str, str], Entity] = {}
        self._called: dict[Entity, str] = {}

    def means(self, module: str, identifier: str, entity: Entity) -> None:
        self._meant[module, identifier] = entity

    def settle(self, words: Set[str]) -> None:
        """Choose the names. ``words``: what a new one must not be, since some function may have it for a variable."""
        identifiers: dict[Entity, set[str]] = {}
        for (_, identifier), entity in self._meant.items():
            identifiers.setdefault(entity, set()).add(identifier)
        owners: dict[str, object] = {}
        for entity in sorted(identifiers, key=_rank):
            own = entity.bound if isinstance(entity, Import) else entity.name
            if owners.get(own, _target(entity)) == _target(entity) and identifiers[entity] == {own}:
                owners[own] = _target(entity)
                self._called[entity] = own
            else:
                fresh = (f"{own}_{number}" for number in itertools.count(2))
                self._called[entity] = next(name for name in fresh if name not in words and name not in owners)
                owners[self._called[entity]] = _target(entity)

    def __call__(self, module: str, identifier: str) -> str:
        """What the identifier of the module becomes."""
        return self._called[self._meant[module, identifier]]

    def imports(self) -> set[Import]:
        """All that is needed of other people's modules, bound as it is called."""
        return {entity._replace(bound=name) for entity, name in self._called.items() if isinstance(entity, Import)}


def _rank(entity: Entity) -> int:
    """Who keeps its name: what can't have another, the program itself, the names that readers know, the rest."""
    match entity:
        case Builtin():
            return 0
        case Own(module=""):
            return 1
        case Import():
            return 2
        case _:
            return 3


def _target(entity: Entity) -> object:
    """What the name is bound to: ``import a`` and ``import a.b`` both bind ``a``."""
    if isinstance(entity, Import):
        unaliased = entity.name is None and entity.bound == entity.module.partition(".")[0]
        return (entity.bound if unaliased else entity.module, entity.name)
    return entity
