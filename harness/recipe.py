"""What an environment is made of, as it stands in a file. Little is imported here: every command reads ``bench.toml``."""

from __future__ import annotations

import platform
import sys

import msgspec

WORKER_NEEDS = ("msgspec>=0.19", "numpy", "psutil>=6.0")  #: beside the framework; our own code comes by path
OLDEST_PYTHON = ">=3.11"  #: that our code runs in
CURRENT = "current"  #: what the interpreter that runs this is called, whatever it holds
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
