"""Which hand-written kernel a backend has. The grid of files answers: ``kernels/<kernel>/<framework>_<device>.py``; no list names one."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from metalbench.backends.base import Unsupported

DEVICES = {"mps": "metal"}  #: what a file is called after, where a framework has a name of its own for it


def binding(kernel: str, framework: str, kind: str) -> ModuleType:
    """The module that loads a kernel for a framework's device and binds it. Raises Unsupported, naming the file that would have it."""
    name = f"{framework}_{DEVICES.get(kind, kind)}"
    if not (Path(__file__).parent / kernel / f"{name}.py").exists():
        raise Unsupported(f"there is no hand-written kernel for this framework and device: kernels/{kernel} has no {name}.py")
    return importlib.import_module(f"metalbench.kernels.{kernel}.{name}")
