"""The dashboard's pages as a browser's parser sees them."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

from metalbench.results.dashboard.site import Site
from metalbench.results.dashboard.source import Source
from metalbench.results.store import open_store

VOID = {"meta", "link", "br", "img", "input"}
#: what a page must show as it is: an end of every kind of place where text stands, and characters that hide or reorder what follows
HOSTILE = """"'></pre></script><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}&amp;\x1b[31m\x00\u202egnp"""
SHOWN = HOSTILE.replace("\x1b", "�").replace("\x00", "�").replace("\u202e", "�")


class _Parser(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tree, self.open = ET.TreeBuilder(), []

    def handle_starttag(self, tag, attributes):
        assert len({name for name, _ in attributes}) == len(attributes), "an attribute given twice"
        self.tree.start(tag, {name: value or "" for name, value in attributes})
        self.open.append(tag)
        if tag in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"{tag} closes something else"
        self.tree.end(tag)

    def handle_data(self, data):
        self.tree.data(data)


def parsed(html):
    """The page's root element; a tag that is not closed fails."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return parser.tree.close()


def text(element):
    return " ".join("".join(element.itertext()).split())


def naming(cell):
    return " ".join(f"{name}={value}" for name, value in cell.case.items())


def page(folder, path, *runs, **options):
    """The page at a path, of a store that holds these runs: pairs of a run and its records."""
    with open_store(str(folder / "store.sqlite")) as store:
        for run, records in runs:
            store.receive(run, records)
        return parsed(Site(Source(store, naming), live=False, **options).page(path))


def grid(root, name):
    """The rows of a grid: of each field its text, its value and its link."""
    rows = root.findall(f".//section[@id='{name}']//tbody/tr")
    return [[_field(field) for field in row] for row in rows]


def _field(field):
    value, link = field.get("data-value"), field.find("a")
    number = float(value) if "data-number" in field.attrib else value
    words = " ".join(part.strip() for part in field.itertext() if part.strip())
    return words, number, None if link is None else link.get("href")


def facts(root):
    """Every name and value of the page's lists."""
    return {text(name): text(value) for each in root.iter("dl") for name, value in zip(each[::2], each[1::2], strict=True)}


def assert_inert(root):
    """Nothing on the page runs but the site's own files, and nothing leads elsewhere."""
    for element in root.iter():
        assert element.tag not in {"img", "iframe", "object", "style"}
        assert not [name for name in element.attrib if name.startswith("on") or name == "style"]
        for name in ("href", "src"):
            assert not re.match(r"[a-z]+:|/", element.get(name, "")), element.attrib
    for script in root.iter("script"):
        assert ("src" in script.attrib) != (script.get("type") == "application/json")
    everything = "".join(root.itertext()) + "".join(value for element in root.iter() for value in element.attrib.values())
    assert not [letter for letter in everything if not letter.isprintable() and letter not in "\n\t"]
