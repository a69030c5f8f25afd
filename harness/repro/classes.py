"""What of our classes a program needs: the methods and attributes whose names it uses, and the bases that have any."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from typing import Literal, NamedTuple

from metalbench.harness.repro.modules import Import, Module, Modules
from metalbench.harness.repro.scopes import module_names

Kind = Literal["struct", "plain", "foreign"]
#: bases that say nothing about what an object does; of classes with any other base every method may be called by somebody else
TRANSPARENT: dict[tuple[str, str], Kind] = {("abc", "ABC"): "plain", ("typing", "Generic"): "plain", ("msgspec", "Struct"): "struct"}


class Needed(NamedTuple):
    """``node``: the class with only the members and bases that are needed. A ``struct`` is to become a dataclass."""

    node: ast.ClassDef
    kind: Kind


class Classes:
    def __init__(self, modules: Modules) -> None:
        self._modules = modules

    def needed(self, module: Module, node: ast.ClassDef, used: Set[str]) -> Needed:
        """``used``: every name that the program reads from an object."""
        kind = self._kind(module, node)
        if kind == "foreign":
            return Needed(node, kind)
        members = [line for line in node.body if _is_needed(line, used, kind)]
        lost = len(members) < len(node.body)
        if lost and kind != "struct" and members and _is_docstring(members[0]):
            members = members[1:]  # it speaks of the whole; that of a struct speaks of its fields
        bases: list[ast.expr] = [root for base in node.bases if (root := self._needed_base(module, base, used)) is not None]
        return Needed(_changed(node, members, bases), kind)

    def _kind(self, module: Module, node: ast.ClassDef) -> Kind:
        kinds: set[Kind] = {"plain"}
        for base in node.bases:
            where, found = self._base(module, base)
            if isinstance(found, ast.ClassDef) and where is not None:
                kinds.add(self._kind(where, found))
            else:
                kinds.add(TRANSPARENT.get(found, "foreign") if isinstance(found, tuple) else "foreign")
        if node.decorator_list or (node.keywords and "struct" not in kinds):  # who knows what they make of it
            return "foreign"
        order: tuple[Kind, ...] = ("foreign", "struct", "plain")
        return next(kind for kind in order if kind in kinds)

    def _needed_base(self, module: Module, base: ast.expr, used: Set[str]) -> ast.Name | None:
        """The name of the base, without what it is generic over; None if nothing of it is needed."""
        where, found = self._base(module, base)
        root = _root(base)
        if where is None or not isinstance(found, ast.ClassDef) or not isinstance(root, ast.Name):
            return None
        node = self.needed(where, found, used).node
        idle = all(_is_docstring(line) or isinstance(line, ast.Pass) for line in node.body)
        return None if idle and not node.bases else root

    def _base(self, module: Module, base: ast.expr) -> tuple[Module | None, ast.ClassDef | tuple[str, str] | None]:
        """Our class and its module; else the module and name of somebody else's; else None."""
        root = _root(base)
        if isinstance(root, ast.Attribute) and isinstance(root.value, ast.Name) and root.value.id in module.imports:
            return None, (module.imports[root.value.id].module, root.attr)
        if not isinstance(root, ast.Name):
            return None, None
        if (found := module.imports.get(root.id)) is not None:
            if not self._modules.is_ours(found.module):
                return None, (found.module, found.name or "")
            return self._base(self._modules[found.module], ast.Name(found.name or ""))
        definitions = module.definitions.get(root.id, [])
        own = definitions[0] if len(definitions) == 1 else None
        return module, own if isinstance(own, ast.ClassDef) else None


def used_names(node: ast.AST, imports: dict[str, Import]) -> Iterator[str]:
    """The names that a statement reads from objects other than imported modules."""
    outside = {id(name) for name in module_names(node) if name.id in imports}
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(attr=name, value=value):
                root: ast.expr = value
                while isinstance(root, ast.Attribute):
                    root = root.value
                if id(root) not in outside:
                    yield name
            case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]):
                yield name
            case ast.ClassDef():  # a member may be made of others
                for line in inner.body:
                    parts = [*line.args.defaults, *line.decorator_list] if isinstance(line, ast.FunctionDef) else [line]
                    yield from (name.id for part in parts for name in ast.walk(part) if isinstance(name, ast.Name))
            case _:
                pass


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_needed(line: ast.stmt, used: Set[str], kind: Kind) -> bool:
    match line:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            abstract = any(isinstance(part, ast.Name) and part.id == "abstractmethod" for part in line.decorator_list)
            return not abstract and (line.name in used or is_dunder(line.name))
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return kind == "struct" or (value is not None and (name in used or is_dunder(name)))
        case ast.Assign():
            return any(not isinstance(target, ast.Name) or target.id in used or is_dunder(target.id) for target in line.targets)
        case _:
            return not isinstance(line, ast.Pass)


def _is_docstring(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _root(base: ast.expr) -> ast.expr:
    return base.value if isinstance(base, ast.Subscript) else base


def _changed(node: ast.ClassDef, body: list[ast.stmt], bases: list[ast.expr]) -> ast.ClassDef:
    fresh = ast.ClassDef(name=node.name, bases=bases, keywords=[], body=body, decorator_list=node.decorator_list)
    return ast.copy_location(fresh, node)
