"""Which hand-written kernels there are, and who has which. No list names one: the files answer.

A folder ``kernels/<kernel>/`` is a kernel, whose ``KERNEL`` says of which workload it is and what its modules offer;
``<framework>_<device>.py`` in it binds it. A user's own kernel is another folder with such modules.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from metalbench.backends.base import Device, Factory, Step, Unsupported
from metalbench.workloads.base import Arrays

OURS = Path(__file__).parent
DEVICES = {"mps": "metal"}  #: what a file is called after, where a framework has a name of its own for it


class Kernel(NamedTuple):
    """A variant of ``workload``, made by ``step`` of a module's ``function`` and, as a factory's arguments, device, case and inputs."""

    workload: str
    function: str
    step: Callable[[Callable[..., Any], Device, Any, Arrays], Step]


@functools.cache
def kernels() -> Mapping[str, Kernel]:
    """Every kernel by name. Imports no framework."""
    names = sorted(file.parent.name for file in OURS.glob("*/__init__.py"))
    return {name: importlib.import_module(f"metalbench.kernels.{name}").KERNEL for name in names}


def module_name(framework: str, kind: str) -> str:
    """What a kernel's module for a framework's device is called."""
    return f"{framework}_{DEVICES.get(kind, kind)}"


def variant(kernel: str, framework: str, folder: Path | None = None) -> Factory:
    """The variant that a kernel is in a framework. ``folder``: a user's own; else the one of this project.

    Making the step raises Unsupported where the folder has no module for the device, and whatever that module does.
    """

    def make(device: Device, case: Any, inputs: Arrays) -> Step:
        own = kernels()[kernel]
        function = getattr(binding(kernel, framework, device.kind, folder), own.function)
        return own.step(function, device, case, inputs)

    return make


def binding(kernel: str, framework: str, kind: str, folder: Path | None = None) -> ModuleType:
    """The module that loads a kernel for a framework's device and binds it. Raises Unsupported, naming the file that would have it."""
    name = module_name(framework, kind)
    if not ((folder or OURS / kernel) / f"{name}.py").exists():
        whose = folder.name if folder else f"kernels/{kernel}"
        raise Unsupported(f"there is no hand-written kernel for this framework and device: {whose} has no {name}.py")
    return importlib.import_module(f"{_package(folder) if folder else f'metalbench.kernels.{kernel}'}.{name}")


def _package(folder: Path) -> str:
    """The folder as a package of a name that no other has, so that its modules may import one another by ``from . import``."""
    name = f"metalbench_kernel_{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    if name not in sys.modules:
        start, places = folder / "__init__.py", [str(folder)]
        if start.exists():
            spec = importlib.util.spec_from_file_location(name, start, submodule_search_locations=places)
        else:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = places
        assert spec is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        if spec.loader is not None:
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
    return name
