"""Interpreters in which backends run, and what a worker process finds around it when it starts there."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
import tempfile
from pathlib import Path

import msgspec
import platformdirs

from metalbench.backends.base import Framework
from metalbench.harness.catalog import PACKAGE


class Environment(msgspec.Struct, frozen=True):
    """An interpreter with its packages. ``name`` is part of the series key, ``python`` is a path on this machine."""

    name: str
    python: str


def current() -> Environment:
    """The interpreter that runs this."""
    return Environment("current", sys.executable)


def data_folder() -> Path:
    return Path(platformdirs.user_data_dir("metalbench", appauthor=False))


def cache_folder() -> Path:
    return Path(platformdirs.user_cache_dir("metalbench", appauthor=False))


def worker_variables(framework: Framework, kind: str, environment: Environment) -> dict[str, str]:
    """The whole environment of a worker: the user's own, the framework's and the device's variables, and our code by path.

    The code comes from here, never from a copy installed in the environment, so that parent and worker are of one version.
    """
    compiled = cache_folder() / "compiled" / f"{framework.name}-{kind}-{environment.name}"
    declared = framework.variables | framework.devices[kind].variables
    variables = {name: value.replace("{cache}", str(compiled)) for name, value in declared.items()}
    compiled.mkdir(parents=True, exist_ok=True)
    for name, template in declared.items():
        if template.startswith("{cache}"):
            Path(variables[name]).mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(filter(None, [str(_code_folder()), os.environ.get("PYTHONPATH", "")]))
    ours = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1", "METALBENCH_COMPILE_CACHE": str(compiled)}
    return dict(os.environ) | variables | ours


def fingerprint(environment: Environment) -> str:
    """Changes when packages come or go in the environment."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")} if environment.python == sys.executable else set()
    stamps = [f"{folder}:{Path(folder).stat().st_mtime_ns}" for folder in sorted(folders)]
    return hashlib.sha256("|".join([environment.python, *stamps]).encode()).hexdigest()


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
