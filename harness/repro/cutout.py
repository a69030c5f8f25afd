"""A program that imports from our modules, made to stand alone: what it needs of them is cut out of their source and put before it.

What is needed follows from names. A function, class or constant is taken with all that it names in turn; of a class only the members
whose names are read from some object. The cut text is that of the source, with its comments, but without annotations. A module's parts
keep their order and come after those of the modules that they need, so that everything is defined before it is used.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from typing import NamedTuple

from metalbench.harness.errors import UsageError
from metalbench.harness.repro.classes import Classes, Needed, used_names
from metalbench.harness.repro.modules import Import, Module, Modules
from metalbench.harness.repro.naming import Builtin, Entity, Naming, Own
from metalbench.harness.repro.scopes import bound, module_names
from metalbench.harness.repro.texts import Edit

FIELDS = ("__struct_fields__", "__dataclass_fields__")  #: where msgspec has the names of a struct's fields, and dataclasses
Defining = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
KEYWORD = re.compile(rb"(async\s+)?(def|class)\s+")


class Program(NamedTuple):
    """``imports`` of other people's modules; ``definitions``, cut out; ``main``, the program itself without its imports."""

    imports: set[Import]
    definitions: str
    main: str


def standalone(main: str, modules: Modules) -> Program:
    """Cut out of ``modules`` what the program ``main`` imports from them. UsageError where a source is written too cleverly for that."""
    return _Cutout(Module("", main, "the program"), modules).program()


class _Cutout:
    def __init__(self, main: Module, modules: Modules) -> None:
        self._main, self._modules, self._classes = main, modules, Classes(modules)
        self._kept: dict[str, dict[ast.stmt, None]] = {}  #: module → its statements that are needed
        self._needs: dict[str, dict[str, None]] = {}  #: module → those that it needs something of
        self._used: set[str] = set()  #: names that are read from objects
        self._seen: set[ast.stmt] = set()  #: what need not be looked at again: all but classes, which may turn out to need more
        self._names = Naming()

    def program(self) -> Program:
        self._keep(self._main, self._main.statements)
        while self._grows():
            pass
        reached = [self._module(name) for name in dict.fromkeys(self._ordered(""))]
        self._names.settle({word for module in reached for word in re.findall(r"\w+", module.text.bytes.decode())})
        cut = [(module, line) for module in reached[:-1] for line in module.statements if line in self._kept[module.name]]
        pieces = [(self._cut(module, line), isinstance(line, Defining)) for module, line in cut]
        edits = [edit for line in self._main.statements for edit in self._edits(self._main, line)]
        begin, _ = self._main.text.whole(self._main.statements[0])
        return Program(self._imports(cut), joined(pieces), self._main.text.edited(edits, begin))

    def _keep(self, module: Module, lines: list[ast.stmt]) -> None:
        """With what the module does when it is imported."""
        kept = self._kept.setdefault(module.name, dict.fromkeys(module.effects))
        kept |= dict.fromkeys(lines)
        for name in bound(lines):
            self._names.means(module.name, name, Own(module.name, name))

    def _grows(self) -> bool:
        """Look at what is kept, and keep what it needs; whether that was anything new."""

        def size() -> int:
            return len(self._used) + sum(map(len, self._kept.values()))

        before = size()
        for module, line in [(self._module(name), line) for name, kept in self._kept.items() for line in kept if line not in self._seen]:
            self._look(module, line)
        return size() > before

    def _look(self, module: Module, line: ast.stmt) -> None:
        node = line
        if isinstance(line, ast.ClassDef):
            node, kind = self._needed(module, line)
            if kind == "foreign":  # a protocol, say: what it has is asked of objects
                self._used |= {member.name for member in line.body if isinstance(member, ast.FunctionDef)}
        else:
            self._seen.add(line)
        self._refuse_imports_within(module, node)
        theirs = {name: found for name, found in module.imports.items() if not self._modules.is_ours(found.module)}
        self._used |= set(used_names(node, theirs))
        for name in module_names(node):
            self._want(module, name)

    def _want(self, module: Module, name: ast.Name) -> None:
        entity = self._entity(module, name.id)
        if entity is None:
            raise UsageError(f"{module.where(name)} can't be cut out: it is not clear what the name stands for; import it by itself.")
        self._names.means(module.name, name.id, entity)
        if isinstance(entity, Own):
            origin = self._module(entity.module)
            self._keep(origin, origin.definitions[entity.name])
            if origin is not module:
                self._needs.setdefault(module.name, {})[origin.name] = None

    def _entity(self, module: Module, identifier: str) -> Entity | None:
        if identifier in module.definitions:
            return Own(module.name, identifier)
        if (found := module.imports.get(identifier)) is not None:
            if not self._modules.is_ours(found.module):
                return found
            return None if found.name is None else self._entity(self._modules[found.module], found.name)
        return Builtin(identifier) if hasattr(builtins, identifier) or identifier == "__name__" else None

    def _module(self, name: str) -> Module:
        return self._modules[name] if name else self._main

    def _needed(self, module: Module, line: ast.ClassDef) -> Needed:
        return self._classes.needed(module, line, self._used)

    def _ordered(self, name: str) -> Iterator[str]:
        """The modules that a module needs, each after those that it needs in turn, and itself."""
        for other in self._needs.get(name, {}):
            yield from self._ordered(other)
        yield name

    def _refuse_imports_within(self, module: Module, node: ast.stmt) -> None:
        for inner in ast.walk(node):
            names = [inner.module or ""] if isinstance(inner, ast.ImportFrom) else []
            names += [alias.name for alias in inner.names] if isinstance(inner, ast.Import) else []
            if isinstance(inner, ast.stmt) and any(map(self._modules.is_ours, names)):
                raise UsageError(f"{module.where(inner)} can't be cut out; put the import at the top of the file.")

    def _imports(self, cut: list[tuple[Module, ast.stmt]]) -> set[Import]:
        imports = self._names.imports()
        needed = [self._needed(module, line) for module, line in cut if isinstance(line, ast.ClassDef)]
        if any(kind == "struct" for _, kind in needed):
            imports.add(Import("dataclasses", "dataclass", "dataclass"))
        if any(isinstance(inner, ast.AnnAssign) for node, _ in needed for inner in ast.walk(node)):
            imports.add(Import("__future__", "annotations", "annotations"))
        return imports

    def _cut(self, module: Module, line: ast.stmt) -> str:
        text, edits = module.text, self._edits(module, line)
        if not isinstance(line, ast.ClassDef) or (needed := self._needed(module, line)).kind == "foreign":
            return text.edited(edits, *text.whole(line))
        node = needed.node
        bases = ", ".join(self._names(module.name, base.id) for base in node.bases if isinstance(base, ast.Name))
        above = text.edited(edits, text.whole(line)[0], text.at(line.lineno, line.col_offset))  # comments and decorators
        made = "@dataclass(frozen=True, kw_only=True)\n" if needed.kind == "struct" else ""
        header = f"{above}{made}class {self._names(module.name, line.name)}{f'({bases})' if bases else ''}:\n"
        members = [(text.edited(edits, *text.whole(member)), isinstance(member, Defining | ast.Expr)) for member in node.body]
        return header + (joined(members, blank=1) if members else "    pass")

    def _edits(self, module: Module, line: ast.stmt) -> list[Edit]:
        """Everything called as it is called in the program."""
        text = module.text
        node = self._needed(module, line).node if isinstance(line, ast.ClassDef) else line
        names = list(module_names(node))
        edits = [Edit(text.start(name), text.end(name), self._names(module.name, name.id)) for name in names]
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute) and inner.attr == FIELDS[0]:
                edits.append(Edit(text.end(inner) - len(FIELDS[0]), text.end(inner), FIELDS[1]))
        for name in bound([line]) if isinstance(line, Defining) else bound([line]) - {name.id for name in names}:
            new = self._names(module.name, name)
            if (keyword := KEYWORD.match(text.bytes, text.at(line.lineno, line.col_offset))) is not None:
                edits.append(Edit(keyword.end(), keyword.end() + len(name.encode()), new))
            elif new != name:
                raise self._clash(module, line, name)
        changed = {name.id for name in names if self._names(module.name, name.id) != name.id}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Global) and (clashing := changed & set(inner.names)):
                raise self._clash(module, line, min(clashing))
        return edits

    def _clash(self, module: Module, line: ast.stmt, name: str) -> UsageError:
        return UsageError(f"{module.where(line)} can't be cut out: two modules define {name}; give one of the two another name.")


def joined(pieces: list[tuple[str, bool]], blank: int = 2) -> str:
    """Texts of statements; ``blank`` lines around those that are marked."""
    out = ""
    for number, (text, apart) in enumerate(pieces):
        lines = blank if number and (apart or pieces[number - 1][1]) else 0
        out += ("\n" * (lines + 1) if number else "") + text
    return out
