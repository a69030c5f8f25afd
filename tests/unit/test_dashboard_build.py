"""The dashboard as a folder of files: what is in it, that its links lead somewhere, and what it does to a folder that is there."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.pages import naming
from support.stores import CENTRE_RUN, IN_TURN, MAC_RUN, NIGHTS, SERVER, SLOWED, centre, fill, hostile, mac, nights, ordinary

from metalbench.results.dashboard.build import BuildError, build
from metalbench.results.dashboard.source import cell_path, comparison_path, history_path, run_path, slug
from metalbench.results.store import open_store

SCRIPTS = ("theme.js", "dashboard.js", "tables.js", "heatmap.js", "charts.js", "live.js")
FILES = dict.fromkeys(("style.css", "icon.svg", *SCRIPTS), b"")


class Links(HTMLParser):
    """Every address that a page names."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found += [value for name, value in attributes if name in {"href", "src", "action"}]


def made(folder, pairs, named=()):
    with open_store(fill(folder / "results.sqlite", pairs)) as store:
        return build(store, naming, FILES, folder / "site", named)


def pages(folder):
    return {str(file.relative_to(folder / "site")) for file in (folder / "site").rglob("*.html")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, made(folder, ordinary())


def test_it_tells_how_much_it_wrote(whole):
    folder, (count, size) = whole
    sizes = [file.stat().st_size for file in (folder / "site").rglob("*") if file.is_file()]
    assert (count, size) == (len(sizes), sum(sizes))


def dead(folder):
    """The links that lead to no file of the folder."""
    root = (folder / "site").resolve()
    links = {
        (page, link.partition("#")[0]) for page in pages(folder) for link in Links((root / page).read_text("utf-8")).found if link[0] != "#"
    }
    targets = {(page, link): ((root / page).parent / link).resolve() for page, link in links}
    return {place for place, target in targets.items() if not (target.is_file() and target.is_relative_to(root))}


def test_every_link_leads_to_a_file_of_the_folder(whole):
    folder, _ = whole
    assert dead(folder) == set()
    (folder / "site" / "dead.html").write_text('<a href="index.html"></a><a href="nothing.html"></a><a href="../results.sqlite"></a>')
    assert dead(folder) == {("dead.html", "nothing.html"), ("dead.html", "../results.sqlite")}, "else none would be found"
    (folder / "site" / "dead.html").unlink()


def test_every_page_can_be_reached_from_the_front_page(whole):
    folder, _ = whole
    root = (folder / "site").resolve()
    seen, ahead = set(), [root / "index.html"]
    while ahead:
        page = ahead.pop()
        if page in seen:
            continue
        seen.add(page)
        found = ((page.parent / link.partition("#")[0]).resolve() for link in Links(page.read_text("utf-8")).found)
        ahead += [file for file in found if file.suffix == ".html"]
    assert {str(page.relative_to(root)) for page in seen} == pages(folder)


def test_it_has_the_newest_run_of_each_machine_whole(whole):
    folder, _ = whole
    found = pages(folder)
    for run, records in (nights()[-1], centre(), mac()):
        assert {run_path(run.id, kind) for kind in ("run", "scaling", "roofline", "operators", "claims")} <= found
        assert {cell_path(run.id, record.cell) for record in records} <= found
    assert {re.match(r"run/(.*)\.html", page).group(1) for page in found if page.startswith("run/")} == {NIGHTS[-1], CENTRE_RUN, MAC_RUN}


def test_it_compares_with_the_run_before_and_has_the_histories(whole):
    folder, _ = whole
    found = pages(folder)
    assert comparison_path(NIGHTS[-2], NIGHTS[-1]) in found
    assert history_path(SERVER, SLOWED) in found
    assert not [page for page in found if page.startswith("history/mac/")], "a single point is no history"
    assert all(name in (folder / "site" / history_path(SERVER, SLOWED)).read_text("utf-8") for name in NIGHTS)


def test_runs_that_are_named_are_all_there(tmp_path):
    made(tmp_path, ordinary(), [*IN_TURN, NIGHTS[3]])
    found = pages(tmp_path)
    assert {page for page in found if page.startswith("run/")} == {run_path(name) for name in (*IN_TURN, NIGHTS[3])}
    assert comparison_path(*IN_TURN) in found


def test_of_hostile_names_no_file_is_made(tmp_path):
    """A name that isn't plain is a hash in a path."""
    made(tmp_path, hostile())
    for file in (tmp_path / "site").rglob("*"):
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", file.name), file
    assert run_path(hostile()[-1][0].id) in pages(tmp_path)
    assert dead(tmp_path) == set()


def test_an_empty_store_has_a_front_page_that_says_so(tmp_path):
    made(tmp_path, [])
    assert pages(tmp_path) == {"index.html", "compare/index.html", "history/index.html"}
    assert "bench run" in (tmp_path / "site" / "index.html").read_text("utf-8")
    assert dead(tmp_path) == set()


def test_nothing_of_the_pages_wants_a_server(whole):
    folder, _ = whole
    for page in pages(folder):
        text = (folder / "site" / page).read_text("utf-8")
        assert "data-events" not in text
        assert "<form" not in text


def test_a_site_is_made_anew_and_nothing_old_stays(tmp_path):
    made(tmp_path, nights()[:1])
    (tmp_path / "site" / "left.html").write_text("old")
    with open_store(fill(tmp_path / "results.sqlite", nights()[1:2])) as store:
        build(store, naming, FILES, tmp_path / "site")
    assert run_path(NIGHTS[1]) in pages(tmp_path)
    assert not {run_path(NIGHTS[0]), "left.html"} & pages(tmp_path)
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith("results.sqlite")} == {"site"}


def somebody_elses(folder):
    folder.mkdir()
    (folder / "thesis.tex").write_text("years")


@pytest.mark.parametrize(
    ("there", "words"),
    [(somebody_elses, "holds something else than a dashboard"), (lambda folder: folder.write_text("x"), "is a file")],
    ids=["another folder", "a file"],
)
def test_what_is_not_ours_is_left_alone(tmp_path, there, words):
    there(tmp_path / "site")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(BuildError, match=words):
        made(tmp_path, nights()[:1])
    assert {path: path.read_bytes() for path in before} == before


def test_a_page_that_cannot_be_made_leaves_the_old_site(tmp_path, monkeypatch):
    made(tmp_path, nights()[:1])
    before = pages(tmp_path)
    monkeypatch.setattr("metalbench.results.dashboard.pages.operators.in_words", None)
    with pytest.raises(TypeError):
        made(tmp_path, nights()[1:2])
    assert pages(tmp_path) == before
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_empty_folder_may_be_filled(tmp_path):
    (tmp_path / "site").mkdir()
    made(tmp_path, nights()[:1])
    assert Path(tmp_path / "site" / "index.html").is_file()
    assert slug(NIGHTS[0]) == NIGHTS[0]
