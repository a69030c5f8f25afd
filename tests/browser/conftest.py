"""The dashboard in both its forms, served and as a folder of files, and a browser to look at it."""

import pytest
from playwright.sync_api import sync_playwright
from support.browsing import Visit, built, launched, serving
from support.command import Bench
from support.stores import fill, hostile, ordinary


def site(folder, pairs):
    """A folder with a store of these runs, in which the command is run as a user does."""
    folder.mkdir()
    fill(folder / "results.sqlite", pairs)
    return Bench(folder)


def both(request, bench):
    """The site in the form that a test asks for."""
    if request.param == "static":
        yield built(bench)
        return
    with serving(bench) as (_, form):
        yield form


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return site(tmp_path_factory.mktemp("sites") / "ordinary", ordinary())


@pytest.fixture(scope="session")
def hostile_store(tmp_path_factory):
    return site(tmp_path_factory.mktemp("sites") / "hostile", hostile())


@pytest.fixture(scope="session", params=["served", "static"])
def form(request, store):
    yield from both(request, store)


@pytest.fixture(scope="session", params=["served", "static"])
def hostile_form(request, hostile_store):
    yield from both(request, hostile_store)


@pytest.fixture(scope="module")
def browser():
    """Ends with its module: while it lives no other test could have an event loop of its own."""
    with sync_playwright() as play:
        found = launched(play)
        yield found
        found.close()


@pytest.fixture
def visits(browser):
    """Makes visits; at the end none may have complained."""
    made = []

    def visit(form, **options):
        made.append(Visit(browser, form, **options))
        return made[-1]

    yield visit
    for own in made:
        own.close()


@pytest.fixture
def visit(visits, form):
    return visits(form)
