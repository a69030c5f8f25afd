"""What client and machines tell each other, as JSON: Dask carries it, and nothing of ours is pickled but the names of two functions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec

from metalbench import __version__
from metalbench.harness.plan import Options, Plan
from metalbench.results.record import Cell, Host, Record


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured, before it is known where: ``options`` have no columns yet, which each machine chooses for itself."""

    plugins: dict[str, str]  #: the client's, as ``plugin_marks`` gives them
    options: Options
    backends: list[str]  #: none for those that are usual where it is measured
    environments: list[str]
    making: bool  #: whether environments that are asked for by their requirements are made


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's answer: its plan, and which of its cells it has a backend for; or in one sentence why it has none."""

    host: Host
    plan: Plan | None = None
    able: list[str] = []  #: keys of cells
    problem: str = ""


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """Cells of a run, to be measured on one machine. Told on ``topic`` as it goes."""

    run: str
    topic: str
    plan: Plan


class Started(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    machine: str
    run: str
    cell: Cell
    launch: int


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    machine: str
    run: str
    record: Record


Event = Started | Finished


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All records that the machine has of an errand's cells and launches, whether they were made now or before."""

    machine: str
    run: str
    records: list[Record]


def versions() -> dict[str, str]:
    """What must be the same all over a fleet, whatever its Pythons are."""
    return {"metalbench": __version__, "distributed": version("distributed")}


def plugin_marks(plugins: Sequence[str]) -> dict[str, str]:
    """Each plug-in file's name → a hash of what is in it, which is its version: a path is one machine's own."""
    return {Path(file).name: hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12] for file in plugins}


def difference(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """``metalbench 0.1 there, 0.2 here``; empty where they are alike."""
    names = [name for name in sorted(ours | theirs) if ours.get(name) != theirs.get(name)]
    return "; ".join(f"{name} {theirs.get(name, 'missing')} there, {ours.get(name, 'missing')} here" for name in names)
