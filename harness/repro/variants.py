"""How a backend does a workload, found in its source: the parent imports no framework, so it can't ask the module."""

from __future__ import annotations

import ast

from metalbench.harness.errors import UsageError
from metalbench.harness.repro.modules import Module, Modules


def named_factory(modules: Modules, place: str, variant: str, offer: tuple[str, str] | None) -> str:
    """The name by which the module at ``place`` has the factory of a variant; one that has none there is given one.

    ``offer``: the framework and the workload, as a plug-in has them in its IMPLEMENTATIONS; a module of ours has only VARIANTS.
    """
    module = modules[place]
    table, text = _variants(module, offer)
    found = _entry(table, variant)
    if isinstance(found, ast.Name):
        return found.id
    if found is None and isinstance(table, ast.Dict) and all(isinstance(key, ast.Constant) for key in table.keys):
        raise UsageError(f"{module.place} has no variant {variant!r}; the cell was measured with another version of it.")
    name = "build"
    while name in module.definitions or name in module.imports:
        name += "_"
    modules.extended(place, f"{name} = {module.source(found) if found is not None else f'{text}[{variant!r}]'}\n")
    return name


def _variants(module: Module, offer: tuple[str, str] | None) -> tuple[ast.expr | None, str]:
    """The mapping from variants to factories as it stands there, as far as it can be read; and an expression for it."""
    if offer is None:
        return _assigned(module, "VARIANTS"), "VARIANTS"
    found = _entry(_assigned(module, "IMPLEMENTATIONS"), offer)
    if isinstance(found, ast.Call):  # of Implementation
        variants = found.args[0] if found.args else next((word.value for word in found.keywords if word.arg == "variants"), None)
        if variants is not None:
            return variants, module.source(variants)
    return None, f"IMPLEMENTATIONS[{offer!r}].variants"


def _assigned(module: Module, name: str) -> ast.expr | None:
    lines = module.definitions.get(name, [])
    return lines[0].value if len(lines) == 1 and isinstance(lines[0], ast.Assign) else None


def _entry(table: ast.expr | None, key: str | tuple[str, str]) -> ast.expr | None:
    """What a dictionary's display has for a key that stands there; None where it isn't to be seen."""
    if isinstance(table, ast.Dict):
        for place, value in zip(table.keys, table.values, strict=True):
            if isinstance(place, ast.Constant | ast.Tuple) and ast.unparse(place) == repr(key):
                return value
    return None
