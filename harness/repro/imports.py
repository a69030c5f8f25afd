"""Imports as they stand at the head of a file: the standard library's, then the others', sorted as linters like them."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from metalbench.harness.repro.modules import Import


def blocks(imports: Iterable[Import]) -> tuple[str, str]:
    """Lines for the standard library, those from ``__future__`` first, and for everything else."""
    found = set(imports)
    future = {one for one in found if one.module == "__future__"}
    standard = {one for one in found - future if one.module.partition(".")[0] in sys.stdlib_module_names}
    first = "\n\n".join(filter(None, [_lines(future), _lines(standard)]))
    return first, _lines(found - future - standard)


def _lines(imports: set[Import]) -> str:
    whole = sorted(f"import {one}" for one in imports if one.name is None)
    parts: dict[str, list[Import]] = {}
    for one in imports:
        if one.name is not None:
            parts.setdefault(one.module, []).append(one)
    named = [f"from {module} import {', '.join(map(str, sorted(ones, key=_order)))}" for module, ones in sorted(parts.items())]
    return "\n".join([*whole, *named])


def _order(one: Import) -> tuple[int, str]:
    """Constants, then classes, then the rest."""
    name = one.name or ""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2), name
