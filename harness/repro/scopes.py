"""Which names of a program stand for what its module holds: Python's rules of scope, read off the syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

NOTHING: frozenset[str] = frozenset()


def module_names(node: ast.AST) -> Iterator[ast.Name]:
    """Where a statement of a module, or the module itself, reads or binds names that are looked up in the module."""
    return _names(node, NOTHING, NOTHING)


def bound(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """What statements bind in the scope in which they stand."""
    names: set[str] = set()
    elsewhere: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
                continue
            case ast.Lambda():
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                names |= {inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)}
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.Import() | ast.ImportFrom():
                names |= {bound_name(alias) for alias in node.names}
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case ast.Global() | ast.Nonlocal():
                elsewhere |= set(node.names)
            case _:
                pass
        waiting += ast.iter_child_nodes(node)
    return frozenset(names - elsewhere)


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    """Every parameter, of whatever kind."""
    given = function.args
    starred = (given.vararg, given.kwarg)
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *(argument for argument in starred if argument is not None)]


def bound_name(alias: ast.alias) -> str:
    """What ``import a.b`` or ``from a import b`` binds, ``as`` or not."""
    return alias.asname or alias.name.partition(".")[0]


def _names(node: ast.AST, here: frozenset[str], within: frozenset[str]) -> Iterator[ast.Name]:
    """``here``: what is bound around the node; ``within``: what of it functions that begin at the node can see."""
    match node:
        case ast.Name():
            if node.id not in here:
                yield node
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            body = [node.body] if isinstance(node, ast.Lambda) else node.body
            inner = within | bound(body) | {argument.arg for argument in arguments(node)}
            yield from _all(body, inner, inner)
            yield from _all((child for child in ast.iter_child_nodes(node) if child not in body), here, within)
        case ast.ClassDef():
            yield from _all(node.body, within | bound(node.body), within)
            yield from _all((child for child in ast.iter_child_nodes(node) if child not in node.body), here, within)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            first = node.generators[0].iter
            inner = within | bound(generator.target for generator in node.generators)
            yield from _names(first, here, within)
            parts = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.comprehension)]
            parts += [part for generator in node.generators for part in ast.iter_child_nodes(generator) if part is not first]
            yield from _all(parts, inner, inner)
        case _:
            yield from _all(ast.iter_child_nodes(node), here, within)


def _all(nodes: Iterable[ast.AST], here: frozenset[str], within: frozenset[str]) -> Iterator[ast.Name]:
    for node in nodes:
        yield from _names(node, here, within)
