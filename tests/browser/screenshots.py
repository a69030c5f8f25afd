"""Photographs each kind of page of a store's static site, for the documentation.

python tests/browser/screenshots.py STORE FOLDER

Of each kind the largest page, which has most to show; a kind that the site has none of is left out, which is told.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent))  # where `support` is, also without pytest
from support.browsing import built, drawn, launched
from support.command import Bench

WIDTH, HEIGHT = 1200, 1400  #: pixels of a picture at most
KINDS = ("run", "cell", "scaling", "roofline", "operators", "claims", "history", "compare")
VIEWS = {"overview": {}, "overview-dark": {"color_scheme": "dark"}, "overview-400": {"viewport": {"width": 400, "height": HEIGHT}}}


def photograph(site, folder):
    """Name → what stands on the page's top, of every picture made."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {kind: found for kind in KINDS if (found := first(site, kind)) is not None}
    titles = {}
    with sync_playwright() as play:
        browser = launched(play)
        for name, options in (VIEWS | {kind: {} for kind in pages}).items():
            context = browser.new_context(**({"viewport": {"width": WIDTH, "height": HEIGHT}} | options))
            page = context.new_page()
            page.goto((site / pages.get(name, "index.html")).as_uri())
            drawn(page)
            page.evaluate("window.scrollTo(0, 0)")
            height = min(HEIGHT, page.evaluate("document.body.scrollHeight"))
            page.screenshot(path=folder / f"{name}.png", clip={"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height})
            titles[name] = page.locator("h1").inner_text()
            context.close()
        browser.close()
    return titles


def first(site, kind):
    """The path of the site's largest page of a kind, which has most to show; None where it has none."""
    found = [page for page in (site / kind).rglob("*.html") if page.name != "index.html"]
    return max(found, key=lambda page: page.stat().st_size).relative_to(site) if found else None


def main(store, folder):
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(Path(scratch))
        built(bench, "--store", str(Path(store).absolute()))
        titles = photograph(bench.folder / "site", Path(folder))
    for name, title in sorted(titles.items()):
        print(f"{name}.png: {title}")
    for kind in {*KINDS} - {*titles}:
        print(f"no page of the kind {kind}")


if __name__ == "__main__":
    main(*sys.argv[1:])
