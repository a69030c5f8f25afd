"""Modules read, not imported: what each defines and imports, and which of them are ours to take apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from metalbench.harness.catalog import PACKAGE
from metalbench.harness.errors import UsageError
from metalbench.harness.repro.scopes import bound, bound_name
from metalbench.harness.repro.texts import Text, bare

OURS = "metalbench."
KERNELS = f"{OURS}kernels."


class Import(NamedTuple):
    """``import module as bound``, or ``from module import name as bound``."""

    module: str
    name: str | None
    bound: str

    def __str__(self) -> str:
        what = self.module if self.name is None else self.name
        return what if self.bound in {what, what.partition(".")[0]} else f"{what} as {self.bound}"


class Module:
    """A module's bare source. ``statements`` are its definitions and what else it does when it is imported, in order."""

    def __init__(self, name: str, source: str, place: str) -> None:
        self.name, self.place = name, place
        try:
            self.text = Text(bare(source))
        except SyntaxError as error:
            raise UsageError(f"{place} can't be taken apart (line {error.lineno}: {error.msg}); write that line more plainly.") from error
        body = self.text.tree.body
        self.imports = {found.bound: found for line in body for found in _imported(line)}
        self.statements = [line for line in body if not isinstance(line, ast.Import | ast.ImportFrom) and not _is_idle(line)]

    @cached_property
    def definitions(self) -> dict[str, list[ast.stmt]]:
        """Name → the statements that bind it."""
        found: dict[str, list[ast.stmt]] = {}
        for line in self.statements:
            for name in bound([line]):
                found.setdefault(name, []).append(line)
        return found

    @cached_property
    def effects(self) -> list[ast.stmt]:
        """Statements that bind nothing, such as the setting of a switch, and those that bind something by the way."""
        return [line for line in self.statements if not bound([line]) or isinstance(line, ast.For | ast.While | ast.With)]

    def source(self, node: ast.expr | ast.stmt) -> str:
        return self.text.bytes[self.text.start(node) : self.text.end(node)].decode()

    def where(self, node: ast.expr | ast.stmt) -> str:
        """The file, and the words there: lines are not counted alike in the bare source."""
        words = " ".join(self.source(node).split())
        return f"{self.place} (at `{words[:60]}{'…' if len(words) > 60 else ''}`)"


class Modules:
    """Reads each of our modules once. ``files``: where the plug-ins' are, which are ours for this purpose."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._read: dict[str, Module] = {}

    def is_ours(self, name: str) -> bool:
        return name in self._files or name.startswith(OURS)

    def __getitem__(self, name: str) -> Module:
        if name.startswith(KERNELS):
            raise UsageError("A hand-written kernel is not cut out of its folder; give the folder in kernels/ with the report.")
        if name not in self._read:
            path = self._files.get(name) or PACKAGE.joinpath(*name.removeprefix(OURS).split(".")).with_suffix(".py")
            try:
                self._read[name] = Module(name, path.read_text("utf-8"), str(path))
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"The source of {name} can't be read at {path}: {error}.") from error
        return self._read[name]

    def extended(self, name: str, source: str) -> None:
        """Let the module's source go on with ``source``."""
        module = self[name]
        self._read[name] = Module(name, f"{module.text.bytes.decode()}\n\n{source}", module.place)


def _imported(line: ast.stmt) -> Iterator[Import]:
    if isinstance(line, ast.Import):
        yield from (Import(alias.name, None, bound_name(alias)) for alias in line.names)
    elif isinstance(line, ast.ImportFrom) and line.module is not None and line.module != "__future__":
        yield from (Import(line.module, alias.name, bound_name(alias)) for alias in line.names)


def _is_idle(line: ast.stmt) -> bool:
    """A docstring, nothing at all, or what is done only when the module is run as a program."""
    if isinstance(line, ast.Expr | ast.Pass):
        return isinstance(line, ast.Pass) or isinstance(line.value, ast.Constant)
    return isinstance(line, ast.If) and any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(line.test))
