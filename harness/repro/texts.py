"""Source text and its syntax tree: where a node stands in the text, and texts with parts of them replaced."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from metalbench.harness.repro.scopes import arguments

LINTERS = re.compile(r"#\s*(noqa|type:|mypy:|pyright:|ruff:|pragma:|fmt:)")  #: begins a comment that speaks to a tool, not to a reader


class Edit(NamedTuple):
    """What to put in the place of the bytes from ``start`` to ``end``."""

    start: int
    end: int
    new: str = ""


class Text:
    """A module's source. The tree counts columns in bytes, so the text is bytes too."""

    def __init__(self, source: str) -> None:
        self.bytes = source.replace("\r\n", "\n").encode()
        self.tree = ast.parse(self.bytes)
        self._lines = [0, *accumulate(len(line) + 1 for line in self.bytes.split(b"\n"))]

    def start(self, node: ast.expr | ast.stmt | ast.arg) -> int:
        """Of a function or class with decorators: of the first of them."""
        decorators = getattr(node, "decorator_list", [])
        if decorators:
            return self.bytes.rindex(b"@", 0, self.at(decorators[0].lineno, decorators[0].col_offset))
        return self.at(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt | ast.arg) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.at(node.end_lineno, node.end_col_offset)

    def at(self, line: int, column: int) -> int:
        return self._lines[line - 1] + column

    def whole(self, node: ast.stmt) -> tuple[int, int]:
        """From the first of the comment lines that stand directly above a statement to the end of its last line."""
        first = self.bytes.rfind(b"\n", 0, self.start(node)) + 1
        while first and (above := self.bytes[self.bytes.rfind(b"\n", 0, first - 1) + 1 : first]).lstrip().startswith(b"#"):
            first -= len(above)
        last = self.bytes.find(b"\n", self.end(node))
        return first, len(self.bytes) if last < 0 else last

    def edited(self, edits: Iterable[Edit], start: int = 0, end: int | None = None) -> str:
        """The text from ``start`` to ``end`` with those edits that lie in it."""
        end = len(self.bytes) if end is None else end
        parts, place = [], start
        for edit in sorted(edit for edit in edits if start <= edit.start and edit.end <= end):
            parts += [self.bytes[place : edit.start], edit.new.encode()]
            place = edit.end
        return b"".join([*parts, self.bytes[place:end]]).decode()


def bare(source: str) -> str:
    """The source without what only tools read: the annotations of functions and variables, and comments for linters.

    The fields of a class keep their annotations, which may make them fields.
    """
    text = Text(source)
    return text.edited([*_annotations(text), *_linters(text)])


def _annotations(text: Text) -> Iterator[Edit]:
    fields = {id(line) for node in ast.walk(text.tree) if isinstance(node, ast.ClassDef) for line in node.body}
    for node in ast.walk(text.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for argument in arguments(node):
                if argument.annotation is not None:
                    yield _parameter(text, argument, argument.annotation)
            if node.returns is not None:
                arrow = text.bytes.rindex(b"->", 0, text.start(node.returns))
                yield Edit(len(text.bytes[:arrow].rstrip()), text.end(node.returns))
        elif isinstance(node, ast.AnnAssign) and id(node) not in fields:
            if node.value is None:
                yield Edit(text.start(node), text.end(node), "pass")
            else:
                yield Edit(text.end(node.target), text.end(node.annotation))


def _parameter(text: Text, argument: ast.arg, annotation: ast.expr) -> Edit:
    """``name: int`` becomes ``name``, and ``name: int = 3`` becomes ``name=3``."""
    name, end = text.start(argument) + len(argument.arg.encode()), text.end(annotation)
    default = re.compile(rb"\s*=\s*").match(text.bytes, end)
    return Edit(name, default.end() if default else end, "=" if default else "")


def _linters(text: Text) -> Iterator[Edit]:
    lines = text.bytes.split(b"\n")
    for token in tokenize.generate_tokens(io.StringIO(text.bytes.decode()).readline):
        if token.type == tokenize.COMMENT and LINTERS.match(token.string):
            line, column = token.start
            before = lines[line - 1].decode()[:column].rstrip()
            yield Edit(text.at(line, len(before.encode())), text.at(line, len(lines[line - 1])))
