"""A chart as everything that draws it wants it: the dashboard's pages, ``bench plot`` and ``bench compare --svg``."""

from __future__ import annotations

from typing import Any, NamedTuple


class Figure(NamedTuple):
    """``spec`` is Vega-Lite with its data inside; ``description`` says in words what it shows, for who can't see it.

    ``name``: its place in links and the name of its file, one of a kind on a page.
    """

    name: str
    title: str
    spec: dict[str, Any]
    description: str
