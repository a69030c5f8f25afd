"""A page that is open while a run measures: how far it is, its squares as they come in, and its end."""

import re
import signal

import pytest
from playwright.sync_api import expect
from support.browsing import serving, shown
from support.command import Bench

LAUNCHES, CELLS = 12, 5  # so many that a busy machine has opened the pages before the end
RUN = ("run", "--workload", "steady", "--backend", "numpy-cpu", "--budget", "0.1", "--store", "results.sqlite", "--quiet")
WHOLE, LITTLE = ("--launches", str(LAUNCHES)), ("--launches", "1", "--case", "size=16")
COUNT = re.compile(rf"(\d+) of {LAUNCHES * CELLS} launches")
PATIENCE = 120_000  #: ms for a run of some seconds, which may have to wait until another on this machine has ended


@pytest.fixture
def measuring(tmp_path):
    """A folder whose store is served and empty, and where it is."""
    bench = Bench(tmp_path)
    bench.configure(plugins=["faulty.py", "steady.py"])
    with serving(bench) as (_, form):
        yield bench, form


def begin(bench, request, label, *options):
    process = bench.start(*RUN, *options, "--label", label)

    def end():
        process.kill()
        process.communicate(timeout=30)

    request.addfinalizer(end)
    return process


def test_a_run_is_watched_from_its_beginning_to_its_end(measuring, visits, request):
    bench, form = measuring
    page = visits(form).open("")
    expect(page.locator("main")).to_contain_text("The store holds no runs yet")
    process = begin(bench, request, "watched", *WHOLE)
    line = page.locator(".progress")
    expect(line).to_contain_text(COUNT, timeout=PATIENCE)
    expect(line).to_contain_text("left", timeout=PATIENCE)
    early = int(COUNT.search(line.inner_text()).group(1))
    line.get_by_role("link").click()
    expect(page.locator("h1")).to_contain_text("watched")
    squares = page.locator("#heatmap td[data-status]")
    expect(squares).to_have_count(CELLS, timeout=PATIENCE)
    expect(page.locator(".progress")).to_contain_text("finished", timeout=PATIENCE)
    assert int(COUNT.search(page.locator(".progress").inner_text()).group(1)) == LAUNCHES * CELLS > early
    assert process.wait(PATIENCE / 1e3) == 0
    expect(page.locator("dd", has_text=f"{LAUNCHES} launches")).to_have_count(1, timeout=PATIENCE)
    assert len(shown(page, "steady")) == CELLS


def test_what_a_reader_does_meanwhile_stays(measuring, visits, request):
    bench, form = measuring
    begin(bench, request, "the first", *LITTLE).wait(PATIENCE / 1e3)
    page = visits(form).open("")
    search = page.locator("#runs").get_by_label("Filter")
    search.fill("second")
    expect(page.locator("#runs").get_by_role("status")).to_have_text("0 of 1 rows")
    begin(bench, request, "the second", *LITTLE)
    expect(page.locator("#runs").get_by_role("status")).to_have_text("1 of 2 rows", timeout=PATIENCE)
    expect(search).to_be_focused()
    expect(search).to_have_value("second")
    expect(page.locator("#runs tbody tr:visible")).to_contain_text(["the second"])


def test_what_was_killed_is_not_called_finished(measuring, visits, request):
    bench, form = measuring
    process = begin(bench, request, "killed", *WHOLE)
    page = visits(form).open("")
    expect(page.locator(".progress")).to_contain_text(COUNT, timeout=PATIENCE)
    process.kill()
    process.wait(PATIENCE / 1e3)
    page.reload()
    expect(page.locator("#runs tbody tr")).to_contain_text(["running"])
    expect(page.locator(".progress")).not_to_contain_text("finished")


def test_the_server_may_end_before_the_page(bench, browser, request):
    """The page stays as it is. That the stream broke is said by the browser, not by the page."""
    with serving(bench) as (process, form):
        context = browser.new_context()
        request.addfinalizer(context.close)
        page, thrown = context.new_page(), []
        page.on("pageerror", lambda error: thrown.append(str(error)))
        page.goto(form.root)
        with page.expect_event("requestfailed", lambda asked: asked.url.endswith("/events")):
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (0, "")
    expect(page.locator("main")).to_contain_text("The store holds no runs yet")
    assert thrown == []
