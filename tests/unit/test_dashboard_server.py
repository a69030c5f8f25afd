"""The server behind the dashboard: what it answers and to whom, what it says of a store that can't be read, and how a run is followed."""

import asyncio
import json
import re
import sqlite3
import time

import httpx
import msgspec
import pytest
from support.pages import naming, parsed, text
from support.stores import NIGHTS, SERVER, SLOWED, fill, growing, nights, record, run

from metalbench.results.dashboard import server
from metalbench.results.dashboard.live import progress
from metalbench.results.dashboard.server import Served, application
from metalbench.results.dashboard.site import Site
from metalbench.results.dashboard.source import Source, slug
from metalbench.results.store import open_store

FILES = {"style.css": b"main {}", "theme.js": b"'use strict';", "icon.svg": b"<svg/>"}
RUN_PAGE = f"/run/{NIGHTS[-1]}.html"


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("store") / "results.sqlite", nights()[-2:])


class Client:
    """Asks the server of a store, without a network between."""

    def __init__(self, place):
        self.served = Served(str(place), naming)
        self.app = application(self.served, FILES, {"localhost", "127.0.0.1"})

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.served.close()

    def request(self, method, path, **options):
        async def ask():
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as asking:
                return await asking.request(method, path, **options)

        return asyncio.run(ask())

    def get(self, path, **options):
        return self.request("GET", path, **options)


@pytest.fixture
def client(two_nights):
    with Client(two_nights) as asking:
        yield asking


def assert_guarded(answer):
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def sentence(answer):
    """What the page says beneath its heading."""
    (main,) = parsed(answer.text).iter("main")
    return text(main.find("p"))


@pytest.mark.parametrize("path", ["/", "/index.html", RUN_PAGE, "/history/index.html", "/compare/index.html"])
def test_pages_come_with_the_policy_and_are_never_kept(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert_guarded(answer)


def test_the_front_page_is_the_overview(client):
    assert client.get("/").text == client.get("/index.html").text


def test_a_served_page_is_the_static_one_but_for_what_is_live(client, two_nights):
    with open_store(two_nights) as store:
        static = Site(Source(store, naming), live=False).page(RUN_PAGE.lstrip("/"))
    assert re.sub(r' data-(events|root)="[^"]*"', "", client.get(RUN_PAGE).text) == static


@pytest.mark.parametrize("name", FILES)
def test_files_beside_the_pages_say_what_they_are(client, name):
    answer = client.get(f"/assets/{name}")
    assert (answer.status_code, answer.content) == (200, FILES[name])
    kind = {"css": "text/css", "js": "javascript", "svg": "image/svg+xml"}[name.rpartition(".")[2]]
    assert kind in answer.headers["content-type"]
    assert_guarded(answer)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing.html",
        "/run/nothing.html",
        f"/run/{NIGHTS[-1]}",
        f"/cell/{NIGHTS[-1]}/{'0' * 20}.html",
        f"/history/{slug(SERVER.key)}/{'0' * 20}.html",
        f"/compare/{NIGHTS[-1]}/nothing.html",
        "/assets/nothing.js",
        "/assets/",
        "/assets/%2e%2e/dashboard/server.py",
        "/assets/..%2fserver.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/run/%2e%2e%2f%2e%2e%2fetc%2fpasswd.html",
        "/run/..%5c..%5cwindows.html",
        "/run/%00.html",
        "/%3Cscript%3Ealert(1)%3C/script%3E",
        f"/run/{'x' * 5000}.html",
    ],
)
def test_there_is_nothing_else_to_be_had(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "no" in sentence(answer)
    assert "<script>alert" not in answer.text
    assert_guarded(answer)


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "evil.example:8642", "169.254.169.254", ""])
def test_a_name_that_is_not_ours_is_refused(client, host):
    """A page of another site can have its own name point here, and would then read what we answer."""
    answer = client.get("/", headers={"Host": host})
    assert answer.status_code == 400
    assert NIGHTS[-1] not in answer.text
    assert_guarded(answer)


@pytest.mark.parametrize("host", ["localhost:8642", "127.0.0.1:1", "LOCALHOST"])
def test_the_port_and_the_case_of_our_name_do_not_matter(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", RUN_PAGE, "/assets/style.css", "/events", "/compare/index.html"])
def test_nothing_can_be_written(client, method, path):
    answer = client.request(method, path)
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]
    assert_guarded(answer)


def test_only_the_head_of_a_page_can_be_asked_for(client):
    answer = client.request("HEAD", "/")
    assert (answer.status_code, answer.text) == (200, "")
    assert_guarded(answer)


def test_the_form_leads_to_a_page_whose_link_can_be_shared(client):
    answer = client.get("/compare/index.html", params={"base": NIGHTS[-2], "candidate": NIGHTS[-1]})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/compare/{NIGHTS[-2]}/{NIGHTS[-1]}.html")
    assert_guarded(answer)
    assert client.get(answer.headers["location"]).status_code == 200


@pytest.mark.parametrize("name", ["//evil.example", "\r\nX: y", "../../x", "<script>", "a b"])
def test_the_form_leads_nowhere_else(client, name):
    answer = client.get("/compare/index.html", params={"base": name, "candidate": name})
    assert answer.headers["location"] == f"/compare/{slug(name)}/{slug(name)}.html"
    assert re.fullmatch(r"x[0-9a-f]{16}", slug(name))
    assert client.get(answer.headers["location"]).status_code == 404


def test_half_of_the_form_is_the_form_again(client):
    assert client.get("/compare/index.html", params={"base": NIGHTS[-2]}).status_code == 200


def test_a_fault_of_ours_tells_nothing_of_the_machine(two_nights, monkeypatch):
    def fail(self, path):
        raise RuntimeError("/home/somebody/secret")

    monkeypatch.setattr(Site, "page", fail)
    with Client(two_nights) as asking:
        answer = asking.get("/")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert sentence(answer)
    assert_guarded(answer)


def newer(place):
    fill(place, [])
    with sqlite3.connect(place) as database:
        database.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    database.close()


def something_else(place):
    with sqlite3.connect(place) as database:
        database.execute("CREATE TABLE photographs (name TEXT)")
    database.close()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (newer, "written by a newer metalbench (schema 99"),
        (something_else, "is a database of something else"),
        (lambda place: place.write_bytes(b"no store at all " * 100), "is damaged or not a metalbench store"),
        (lambda place: place.mkdir(), "can't be written"),
    ],
    ids=["newer", "something else", "damaged", "a folder"],
)
@pytest.mark.parametrize("path", ["/", RUN_PAGE, "/history/index.html", "/compare/index.html"])
def test_a_store_that_cannot_be_read_is_a_sentence(tmp_path, spoil, words, path):
    spoil(tmp_path / "results.sqlite")
    with Client(tmp_path / "results.sqlite") as asking:
        answer = asking.get(path)
    assert answer.status_code == 503
    assert words in sentence(answer)
    assert_guarded(answer)


def test_a_store_is_tried_again(tmp_path):
    """Whoever upgrades or puts back a copy needs not start the server anew."""
    newer(tmp_path / "results.sqlite")
    with Client(tmp_path / "results.sqlite") as asking:
        assert asking.get("/").status_code == 503
        (tmp_path / "results.sqlite").unlink()
        fill(tmp_path / "results.sqlite", nights()[-1:])
        assert NIGHTS[-1] in asking.get("/").text


def test_an_empty_store_says_how_to_fill_it(tmp_path):
    with Client(tmp_path / "results.sqlite") as asking:
        for path in ("/", "/history/index.html", "/compare/index.html"):
            assert asking.get(path).status_code == 200
        assert "bench run" in asking.get("/").text


def followed(app, changes):
    """The messages of the stream of events; after each the next of ``changes`` is done, and after the last the client goes away."""

    async def ask():
        heads, messages, gone, left = [], [], asyncio.Event(), list(changes)
        asked = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive():
            if not asked:
                await gone.wait()
                return {"type": "http.disconnect"}
            return asked.pop()

        async def send(message):
            if message["type"] == "http.response.start":
                heads.append(dict(message["headers"]))
            for line in message.get("body", b"").decode().splitlines():
                if line.startswith("data: "):
                    messages.append(json.loads(line.removeprefix("data: ")))
                    left.pop(0)() if left else gone.set()

        scope = {"type": "http", "method": "GET", "path": "/events", "headers": [(b"host", b"localhost")], "query_string": b""}
        await app(scope | {"asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": ""}, receive, send)
        return heads[0], messages

    return asyncio.run(asyncio.wait_for(ask(), 60))


def test_a_run_is_followed_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "INTERVAL", 0.001)
    place = tmp_path / "results.sqlite"
    this, coming = growing(place, 2)
    with open_store(str(place)) as writer:
        changes = [lambda own=own: writer.add(this.id, own) for own in coming]
        served = Served(str(place), naming)
        head, messages = followed(application(served, FILES, {"localhost"}), [*changes, lambda: writer.become(this.id, "finished")])
        served.close()
    assert head[b"content-type"].startswith(b"text/event-stream")
    assert head[b"cache-control"] == b"no-store"
    assert b"content-security-policy" in head
    assert [message["done"] for message in messages] == [*range(2, 16), 15]
    assert {message["total"] for message in messages} == {15}
    assert [message["state"] for message in messages] == ["running"] * 14 + ["finished"]
    assert {message["path"] for message in messages} == {f"run/{this.id}.html"}
    assert [bool(message["left"]) for message in messages] == [False] * 4 + [True] * 9 + [False] * 2


def test_a_store_that_is_gone_ends_no_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "INTERVAL", 0.001)
    place = tmp_path / "results.sqlite"
    newer(place)

    def put_right():
        place.unlink()
        fill(place, nights()[-1:])

    served = Served(str(place), naming)
    _, messages = followed(application(served, FILES, {"localhost"}), [put_right])
    served.close()
    assert messages[0] is None
    assert messages[1]["run"] == NIGHTS[-1]


def told(folder, seconds, done=6):
    """The progress of a run of three cells in five launches, of which ``done`` are recorded, so many ``seconds`` apart, up to now."""
    this = run("r", 1.0, SERVER, [msgspec.structs.replace(SLOWED, version=version) for version in range(3)], "mine", state="running")
    now = time.time()
    records = [
        record(own, launch, now - seconds * (done - 1 - 3 * launch - place))
        for launch in range(5)
        for place, own in enumerate(this.cells())
    ]
    with open_store(fill(folder / "results.sqlite", [(this, records[:done])])) as store:
        return progress(Source(store, naming))


def test_what_is_left_is_told_by_the_pace_of_the_latest_records(tmp_path):
    found = told(tmp_path, 8.0)
    assert (found.title, found.done, found.total, found.left, found.silent) == ("r “mine”", 6, 15, "72 s", False)


def test_of_few_records_no_pace_is_told(tmp_path):
    assert told(tmp_path, 8.0, done=5).left == ""


def test_a_pause_is_no_pace(tmp_path):
    """A night between every two records, as of a run that was taken up again, counts as a minute."""
    assert told(tmp_path, 30000.0).left == "9 min"


def test_a_run_without_a_record_for_long_may_have_died(tmp_path):
    assert not told(tmp_path, 1.0).silent
    for name, state, silent in (("dead", "running", True), ("over", "finished", False)):
        this = run(name, time.time() - 700, SERVER, [SLOWED], state=state)
        with open_store(fill(tmp_path / f"{name}.sqlite", [(this, [])])) as store:
            assert progress(Source(store, naming)).silent is silent


def test_a_cell_that_does_not_run_is_done_for_all_its_launches(tmp_path):
    this = run("r", time.time(), SERVER, [SLOWED], state="running")
    failed = record(SLOWED, 0, time.time(), status="crashed", spans_ns=[])
    with open_store(fill(tmp_path / "results.sqlite", [(this, [failed])])) as store:
        assert (progress(Source(store, naming)).done, progress(Source(store, naming)).left) == (5, "")


def test_without_a_run_there_is_no_progress(tmp_path):
    with open_store(str(tmp_path / "results.sqlite")) as store:
        assert progress(Source(store, naming)) is None
