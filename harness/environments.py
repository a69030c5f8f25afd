"""Interpreters in which backends run, what they hold, and what a worker process finds around it when it starts there."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import tempfile
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple

import msgspec
import platformdirs

from metalbench.backends.base import Framework
from metalbench.harness.catalog import PACKAGE
from metalbench.harness.recipe import CURRENT


class Environment(msgspec.Struct, frozen=True):
    """An interpreter with its packages, and variables to set before a framework is imported in it.

    ``name`` is part of the series key; ``python`` is a path on this machine, empty for an environment that is yet to be made.
    """

    name: str
    python: str
    variables: dict[str, str] = {}


class Column(msgspec.Struct, frozen=True):
    """A backend in an environment: one column of the tables."""

    backend: str
    environment: Environment

    @property
    def key(self) -> tuple[str, str]:
        return self.backend, self.environment.name


class Contents(NamedTuple):
    """What an interpreter is and holds: its version, where it lives, and distribution → version, canonical names."""

    python: str
    prefix: str
    versions: dict[str, str]


def current() -> Environment:
    """The interpreter that runs this."""
    return Environment(CURRENT, sys.executable)


def data_folder() -> Path:
    return Path(platformdirs.user_data_dir("metalbench", appauthor=False))


def home() -> Path:
    """Where managed environments are."""
    return data_folder() / "environments"


def place(name: str) -> Path:
    """The managed environment of this name, whether or not it is there."""
    return home() / slug(name)


def cache_folder() -> Path:
    return Path(platformdirs.user_cache_dir("metalbench", appauthor=False))


def worker_variables(framework: Framework, kind: str, environment: Environment) -> dict[str, str]:
    """The whole environment of a worker: the user's own, the framework's, the device's and the environment's, and our code by path.

    The code comes from here, never from a copy installed in the environment, so that parent and worker are of one version.
    """
    compiled = cache_folder() / "compiled" / f"{framework.name}-{kind}-{slug(environment.name)}"
    declared = framework.variables | framework.devices[kind].variables | environment.variables
    variables = {name: value.replace("{cache}", str(compiled)) for name, value in declared.items()}
    compiled.mkdir(parents=True, exist_ok=True)
    for name, template in declared.items():
        if template.startswith("{cache}"):
            Path(variables[name]).mkdir(parents=True, exist_ok=True)
    searched = (str(_code_folder()), environment.variables.get("PYTHONPATH", ""), os.environ.get("PYTHONPATH", ""))
    path = os.pathsep.join(filter(None, searched))
    ours = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1", "METALBENCH_COMPILE_CACHE": str(compiled)}
    return dict(os.environ) | variables | ours


def slug(name: str) -> str:
    """The name as a folder's; what had to be changed is told apart by a hash."""
    plain = "".join(character if character.isalnum() or character in "-_.=" else "_" for character in name)
    return plain if plain == name else f"{plain[:60]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


@cache
def _contents(python: str) -> Contents | None:
    if python == sys.executable:
        found = {_canonical(name): str(item.version) for item in distributions() if (name := item.name)}
        return Contents(platform.python_version(), sys.prefix, found)
    try:
        answer = subprocess.run([python, "-c", _LOOK], capture_output=True, timeout=60, check=True)
        return msgspec.json.decode(answer.stdout.splitlines()[-1], type=Contents)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError, IndexError):
        return None


def contents(environment: Environment) -> Contents | None:
    """What the environment holds, asked of its interpreter once; None where that is no Python that runs."""
    return _contents(environment.python)


def fingerprint(environment: Environment) -> str:
    """Changes when packages come, go or change in the environment."""
    found = contents(environment)
    packages = (found.python, sorted(found.versions.items())) if found else None
    text = msgspec.json.encode([environment.python, environment.variables, packages])
    return hashlib.sha256(text).hexdigest()


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


#: What ``_contents`` does, for any Python from 3.8 on.
_LOOK = """
import json, platform, sys
from importlib.metadata import distributions
found = {(d.metadata["Name"] or "").lower().replace("_", "-").replace(".", "-"): d.version for d in distributions()}
print(json.dumps([platform.python_version(), sys.prefix, found]))
"""


def _code_folder() -> Path:
    """A folder that holds a link to this package and nothing else, so that nothing beside it is importable by accident."""
    folder = cache_folder() / "code" / hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:16]
    link = folder / "metalbench"
    if not link.is_symlink():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            fresh = Path(scratch) / "metalbench"
            fresh.symlink_to(PACKAGE, target_is_directory=True)
            fresh.replace(link)
    return folder
