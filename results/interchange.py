"""The formats that runs are exchanged in, by name: each is a module in ``results/formats`` that can write, read or both."""

from __future__ import annotations

import codecs
import importlib
import pkgutil
from types import ModuleType
from typing import Literal

from metalbench.results import formats as package
from metalbench.results.formats.base import FormatError, Reading


def formats(skill: Literal["write", "read"]) -> dict[str, ModuleType]:
    """Name → module of the formats that have the skill, in alphabetical order. Their contract is in ``results/formats/base.py``."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = {name.replace("_", "-"): importlib.import_module(f"{package.__name__}.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, skill)}


def read(data: bytes, name: str | None = None) -> tuple[str, Reading]:
    """The name of a file's format, by its contents where none is given, and what it holds.

    Raises FormatError where it is of none; its message, like the problems, is what is to be said of the file after its name.
    """
    readers, data = formats("read"), _utf8(data)
    if name is None:
        text = data.decode(errors="replace")
        name = next((known for known, module in readers.items() if module.recognises(text)), None)
    if name is None:
        what = "is in no format that can be imported" if data.strip() else "is empty"
        raise FormatError(f"{what}: there are {', '.join(readers)}, and --format says which it was meant to be")
    reading: Reading = readers[name].read(data)
    return name, reading


def _utf8(data: bytes) -> bytes:
    """Without a byte order mark, and from UTF-16, in which PowerShell redirects a program's output to a file."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace").encode()
    return data.removeprefix(codecs.BOM_UTF8)
