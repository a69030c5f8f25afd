"""A user's own kernel: a folder like those in ``kernels/``, taken as it is when a run is planned.

What is measured is a copy, so that neither an edit in the middle of a run nor one before its end is taken up again makes one cell of
two kernels. The parent reads modules without running them: which function they define says which kernel the folder is.
"""

from __future__ import annotations

import ast
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from metalbench.harness.catalog import Catalog
from metalbench.harness.environments import cache_folder
from metalbench.harness.errors import UsageError
from metalbench.harness.once import keep_newest, made_once
from metalbench.harness.protocol import OwnKernel
from metalbench.harness.repro.scopes import bound
from metalbench.kernels.binding import kernels, module_name

KEPT = 32  #: copies; what a run that is taken up again needs is among the newest


def taken(folders: Sequence[Path], catalog: Catalog) -> list[OwnKernel]:
    """The kernels in these folders, copied. UsageError for what is none, or for two of one name."""
    found = [_taken(Path(folder).expanduser().resolve(), catalog) for folder in dict.fromkeys(folders)]
    names = [own.name for own in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"Two kernel folders are called {twice}; rename one, since results are kept by that name.")
    return found


def _taken(folder: Path, catalog: Catalog) -> OwnKernel:
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise UsageError(f"--kernel {folder} {what}; give the folder that the kernel's modules are in.")
    if not str(folder).isprintable() or "," in folder.name:
        raise UsageError(f"--kernel {str(folder)!r} can't name results: rename the folder to plain letters without a comma.")
    kernel = _kernel(folder, catalog)
    try:
        source = _source(folder)
        root = cache_folder() / "kernels"
        copy = made_once(root / source, lambda scratch: _copy(folder, scratch / folder.name)) / folder.name
    except OSError as error:
        raise UsageError(f"The kernel folder {folder} can't be copied: {error}; make all of it readable.") from error
    keep_newest(root, KEPT)
    return OwnKernel(name=folder.name, kernel=kernel, workload=kernels()[kernel].workload, folder=str(copy), source=source)


def _kernel(folder: Path, catalog: Catalog) -> str:
    """Which kernel the folder's modules are. UsageError where they don't say, or don't agree."""
    wanted = [f"{module_name(framework.name, kind)}.py" for framework in catalog.frameworks.values() for kind in framework.devices]
    modules = [folder / name for name in dict.fromkeys(wanted) if (folder / name).is_file()]
    if not modules:
        raise UsageError(f"The kernel folder {folder} has no module for a framework's device; call one of {', '.join(wanted)}.")
    functions = {own.function: name for name, own in kernels().items()}
    told = [(module, [functions[name] for name in _defined(module) & functions.keys()]) for module in modules]
    for module, names in told:
        if len(names) != 1:
            several = "more than one" if names else "none"
            raise UsageError(f"{module} defines {several} of {' and '.join(functions)}, which would say what kernel it is; define one.")
        if names[0] != told[0][1][0]:
            raise UsageError(f"{module} is {names[0]} and {told[0][0].name} beside it {told[0][1][0]}; give each kernel its own folder.")
    return told[0][1][0]


def _defined(module: Path) -> frozenset[str]:
    """The names that a module binds at its top."""
    try:
        return bound(ast.parse(module.read_bytes()).body)
    except SyntaxError as error:
        raise UsageError(f"{module} is not Python (line {error.lineno}: {error.msg}); correct it.") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{module} can't be read: {error}; it must be Python text that you may read.") from error


def _files(folder: Path) -> list[Path]:
    """What of a folder is the kernel, relative to it: not what the system, an editor or Python puts beside sources."""
    inside = (file.relative_to(folder) for file in sorted(folder.rglob("*")) if file.is_file())
    return [file for file in inside if not any(part.startswith(".") or part == "__pycache__" for part in file.parts)]


def _source(folder: Path) -> str:
    """A hash of the folder's name and of all that is copied of it."""
    seen = hashlib.sha256(folder.name.encode())
    for file in _files(folder):
        seen.update(f"\0{file.as_posix()}\0{hashlib.sha256((folder / file).read_bytes()).hexdigest()}".encode())
    return seen.hexdigest()[:12]


def _copy(folder: Path, copy: Path) -> None:
    for file in _files(folder):
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / file, copy / file)
