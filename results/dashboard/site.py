"""The map of the site: which page stands at which path. Served and static pages are the same, down to the byte, but for what is live.

Links are relative, so that a page works from a server, from GitHub Pages and from a folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from metalbench.results.charts.style import DARK, LIGHT
from metalbench.results.dashboard.pages import cell, claims, compare, history, operators, overview, roofline, run, scaling
from metalbench.results.dashboard.source import Source, cell_path, comparison_path, history_path, run_path
from metalbench.results.dashboard.view import NoPageError, View
from metalbench.results.quantities import printable

#: path → the page, whose parameters are the pattern's groups in order: slugs of runs and machines, keys of cells
ROUTES: dict[str, Callable[..., View]] = {
    r"index\.html": overview.view,
    r"run/([^/]+)\.html": run.view,
    r"cell/([^/]+)/([^/]+)\.html": cell.view,
    r"scaling/([^/]+)\.html": scaling.view,
    r"roofline/([^/]+)\.html": roofline.view,
    r"operators/([^/]+)\.html": operators.view,
    r"claims/([^/]+)\.html": claims.view,
    r"history/index\.html": history.index,
    r"history/([^/]+)/([^/]+)\.html": history.view,
    r"compare/index\.html": compare.index,
    r"compare/([^/]+)/([^/]+)\.html": compare.view,
}


class Site:
    """Renders pages of a store. ``live``: whether a server stands behind them, which compares any two runs and tells how a run goes.

    ``exists``: whether there is a page at a path; tables link nowhere else.
    """

    def __init__(self, source: Source, *, live: bool, exists: Callable[[str], bool] = lambda _: True) -> None:
        self.source, self._live, self._exists = source, live, exists

    def page(self, path: str) -> str:
        """The page at a path below the root, such as ``run/20261201-175526-91af.html``. Raises NoPageError, StoreError."""
        for pattern, view in ROUTES.items():
            if found := re.fullmatch(pattern, path):
                return render(path, view(self.source, *found.groups()), live=self._live, exists=self._exists)
        raise NoPageError(f"There is no page {path}.")


def apology(path: str, title: str, sentence: str) -> str:
    """A page that only says what is wrong, for a server to send in the place of another."""
    return render(path, View("apology.html", title, {"sentence": sentence}), live=False, exists=lambda _: False)


def render(path: str, view: View, *, live: bool, exists: Callable[[str], bool]) -> str:
    root = "../" * path.count("/")
    template = _environment().get_template(view.template)
    return template.render(view.content, title=view.title, path=path, root=root, live=live, exists=exists)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("metalbench.results.dashboard", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
    )
    environment.globals |= {path.__name__: path for path in (run_path, cell_path, history_path, comparison_path)}
    environment.globals["themes"] = {"light": LIGHT, "dark": DARK}
    environment.filters["plain"] = printable
    return environment


def _visible(value: Any) -> Any:
    """Every text as it is put in: control characters, which could hide or reorder what stands there, become visible."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "".join(letter if letter.isprintable() or letter in "\n\t" else "�" for letter in value)
    return value
