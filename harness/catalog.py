"""What can be measured and by whom: the workloads and frameworks of this package, and those that plug-ins bring.

A workload is a file in ``workloads/``, a framework a folder in ``backends/``, an implementation the file of the one's name in the
other's folder; no list names them. A plug-in is one Python file, given in ``bench.toml`` or found by the entry-point group
``metalbench.plugins``, with any of ``WORKLOAD``, ``FRAMEWORK`` (and ``open_device``), and ``IMPLEMENTATIONS``, a mapping from
(framework, workload) to ``Implementation``. The parent loads plug-ins too, for their workloads' inputs and references: they import
their framework inside their functions. Heavy imports stand inside the methods, since ``bench list workloads`` only reads names.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from metalbench.harness.errors import PluginError, unknown

if TYPE_CHECKING:
    from metalbench.backends.base import Device, DeviceKind, Framework, Implementation
    from metalbench.workloads.base import Workload

PACKAGE = Path(__file__).parent.parent


class Catalog:
    """Everything known by name. ``plugins`` are paths of plug-in files."""

    def __init__(self, plugins: Sequence[Path] = ()) -> None:
        self.plugins = [_load(path) for path in plugins]

    @cached_property
    def workload_files(self) -> dict[str, Path]:
        """Workload name → the file that defines it, in alphabetical order; plug-ins' last."""
        own = {path.stem: path for path in sorted((PACKAGE / "workloads").glob("*.py")) if path.stem != "base" and path.stem[0] != "_"}
        return own | {plugin.WORKLOAD.name: Path(str(plugin.__file__)) for plugin in self.plugins if hasattr(plugin, "WORKLOAD")}

    def workload(self, name: str) -> Workload[Any]:
        """The workload called ``name``; UsageError with the nearest names if there is none."""
        for plugin in self.plugins:
            if hasattr(plugin, "WORKLOAD") and plugin.WORKLOAD.name == name:
                found: Workload[Any] = plugin.WORKLOAD
                return found
        if name not in self.workload_files:
            raise unknown("workload", name, self.workload_files)
        own: Workload[Any] = importlib.import_module(f"metalbench.workloads.{name}").WORKLOAD
        return own

    @cached_property
    def usual_workloads(self) -> list[str]:
        """The names of those that are measured where nobody names any."""
        return [name for name in self.workload_files if not self.workload(name).by_name_only]

    @cached_property
    def frameworks(self) -> dict[str, Framework]:
        """Framework name → its description."""
        import msgspec  # noqa: PLC0415 - not needed to read names

        from metalbench.backends.base import Framework  # noqa: PLC0415 - brings NumPy

        files = sorted((PACKAGE / "backends").glob("*/backend.toml"))
        own = [msgspec.convert(tomllib.loads(file.read_text("utf-8")), Framework) for file in files]
        theirs: list[Framework] = [plugin.FRAMEWORK for plugin in self.plugins if hasattr(plugin, "FRAMEWORK")]
        return {framework.name: framework for framework in [*own, *theirs]}

    @cached_property
    def backends(self) -> dict[str, tuple[Framework, str]]:
        """Backend id, such as ``torch-mps`` → its framework and the device's kind."""
        return {f"{f.prefix}-{kind}": (f, kind) for f in self.frameworks.values() for kind in f.devices}

    def backend(self, name: str) -> tuple[Framework, str]:
        """Framework and device kind of a backend; UsageError with the nearest names if there is none."""
        if name not in self.backends:
            raise unknown("backend", name, self.backends)
        return self.backends[name]

    def device_kind(self, name: str) -> DeviceKind:
        framework, kind = self.backend(name)
        return framework.devices[kind]

    def open_device(self, framework: str, kind: str) -> Device:
        """Import the framework and open the device. Worker only. Raises Unsupported where the device is not there."""
        for plugin in self.plugins:
            if hasattr(plugin, "FRAMEWORK") and plugin.FRAMEWORK.name == framework:
                theirs: Device = plugin.open_device(kind)
                return theirs
        own: Device = importlib.import_module(f"metalbench.backends.{framework}.device").open_device(kind)
        return own

    def implementation(self, framework: str, workload: str) -> Implementation | None:
        """How a framework does a workload, or None if it has no module for it. Worker only."""
        from metalbench.backends.base import Implementation  # noqa: PLC0415 - worker only

        for plugin in self.plugins:
            offered: Mapping[tuple[str, str], Implementation] = getattr(plugin, "IMPLEMENTATIONS", {})
            if (framework, workload) in offered:
                return offered[framework, workload]
        if not (PACKAGE / "backends" / framework / f"{workload}.py").exists():
            return None
        module = importlib.import_module(f"metalbench.backends.{framework}.{workload}")
        return Implementation(module.VARIANTS, module.DEFAULT)

    def summary(self, workload: str) -> str:
        """The first line of the workload's file, read without running it."""
        text = self.workload_files[workload].read_text("utf-8")
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def installed_plugins() -> list[Path]:
    """The files of the plug-ins that installed packages declare, without importing them."""
    files = []
    for entry in entry_points(group="metalbench.plugins"):
        try:
            spec = importlib.util.find_spec(entry.module)
        except ImportError as error:
            raise PluginError(f"The installed plug-in {entry.name!r} can't be loaded: {error}; reinstall or remove its package.") from error
        if spec is None or spec.origin is None:
            raise PluginError(f"The installed plug-in {entry.name!r} names a module that isn't there: {entry.module}.")
        files.append(Path(spec.origin))
    return files


def _load(path: Path) -> ModuleType:
    mark = hashlib.sha256(str(path).encode()).hexdigest()[:8]  # two revisions of one file are two modules
    spec = importlib.util.spec_from_file_location(f"metalbench_plugin_{path.stem}_{mark}", path)
    if spec is None or spec.loader is None:
        raise PluginError(f"The plug-in {path} is not a Python file: a plug-in ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where annotations that are strings are looked up
    try:
        spec.loader.exec_module(module)
    except FileNotFoundError:
        raise PluginError(f"The plug-in {path} does not exist: correct `plugins` in bench.toml.") from None
    except Exception as error:
        place = _place(error, path)
        raise PluginError(f"The plug-in {path} does not import: {type(error).__name__}: {error}{place}.") from error
    if not any(hasattr(module, name) for name in ("WORKLOAD", "FRAMEWORK", "IMPLEMENTATIONS")):
        raise PluginError(f"The plug-in {path} defines none of WORKLOAD, FRAMEWORK and IMPLEMENTATIONS.")
    return module


def _place(error: BaseException, path: Path) -> str:
    """`` (line N)`` of the plug-in where the error arose, if it did in the file itself."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line is not None else ""
