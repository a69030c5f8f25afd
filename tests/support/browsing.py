"""What a browser saw of the dashboard beside the page itself: complaints, and requests that lead elsewhere."""

import os
import re
import shutil
import sys
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from support.stores import CENTRE_RUN, MAC_RUN, NIGHTS, SERVER, SLOWED, attention, cell

from metalbench.results.dashboard.source import cell_path, comparison_path, history_path, run_path

MAC_CELL = cell("mlx-metal", "attention", attention(512), "fused")
COMPARED = (NIGHTS[-2], NIGHTS[-1])
#: a page of each kind in the site of ``stores.ordinary``
KINDS = {
    "overview": "index.html",
    "run": run_path(MAC_RUN),
    "cell": cell_path(MAC_RUN, MAC_CELL),
    "scaling": run_path(MAC_RUN, "scaling"),
    "roofline": run_path(MAC_RUN, "roofline"),
    "operators": run_path(CENTRE_RUN, "operators"),
    "claims": run_path(MAC_RUN, "claims"),
    "histories": "history/index.html",
    "history": history_path(SERVER, SLOWED),
    "comparisons": "compare/index.html",
    "compare": comparison_path(*COMPARED),
}
LOCAL = ("data:", "blob:")  #: what a page has made itself


class Form(NamedTuple):
    """A site as a server has it or a folder: ``root`` is the address of its front page's folder."""

    name: str
    root: str

    def address(self, path):
        return self.root + path


@contextmanager
def serving(bench):
    """The command that serves the store of a folder, as a process and where it is."""
    process = bench.start("dashboard", "--port", "0", "--no-open", "--store", "results.sqlite")
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+/", line)
        assert found, line + process.stderr.read()
        yield process, Form("served", found.group())
    finally:
        process.kill()
        process.communicate(timeout=30)


def built(bench, *options):
    """The pages of the store of a folder as files."""
    result = bench("dashboard", "build", "site", "--store", "results.sqlite", *options)
    assert result.returncode == 0, result.stdout + result.stderr
    return Form("static", (bench.folder / "site").as_uri() + "/")


def launched(play):
    """Debian's Chromium or a Mac's Chrome; without one tests are skipped, or fail where the environment says that they are required."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None and sys.platform != "darwin":
        if os.environ.get("BROWSER_TESTS") == "required":
            pytest.fail("no Chromium or Chrome is installed, and BROWSER_TESTS=required")
        pytest.skip("no Chromium or Chrome is installed")
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return play.chromium.launch(executable_path=found, channel=None if found else "chrome", args=arguments)


class Visit:
    """A page in a browser of its own, with what it complained of. ``page``: Playwright's."""

    def __init__(self, browser, form, **options):
        self.form = form
        self.complaints = []
        self.context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        self.context.set_default_timeout(10_000)
        self.page = self.context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(f"thrown: {error}"))
        self.page.on("request", self._asked)
        self.page.on("requestfailed", self._failed)
        self.page.on("response", lambda answer: answer.status < 400 or self.complaints.append(f"{answer.status}: {answer.url}"))
        self.page.on("dialog", self._opened)

    def open(self, path):
        self.page.goto(self.form.address(path))
        return self.page

    def close(self):
        """Fails where the page complained, or asked for something that isn't the site's."""
        self.context.close()
        assert not self.complaints, self.complaints

    def _said(self, message):
        if message.type in {"error", "warning"}:
            self.complaints.append(f"console: {message.text}")

    def _asked(self, request):
        if not request.url.startswith((self.form.root, *LOCAL)):
            self.complaints.append(f"elsewhere: {request.url}")

    def _failed(self, request):
        """Not what the browser gives up because its page is left."""
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"failed: {request.url} {request.failure}")

    def _opened(self, dialog):
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()


class Field(NamedTuple):
    """``number``: what it sorts by, where that is one."""

    text: str
    number: float | None


FIELDS = """(name) => {
  const rows = [...document.getElementById(name).querySelectorAll("tbody tr")].filter((row) => !row.hidden);
  const number = (field) => "number" in field.dataset ? Number(field.dataset.value) : null;
  return rows.map((row) => [...row.cells].map((field) => [field.innerText.trim().replace(/\\s+/g, " "), number(field)]));
}"""


def shown(page, grid):
    """The rows of a table that are to be seen, in their order."""
    page.locator(f"[id='{grid}']").wait_for()
    return [[Field(*field) for field in row] for row in page.evaluate(FIELDS, grid)]


def drawn(page):
    """Every chart of the page, once it is drawn."""
    charts = page.locator("figure.chart")
    for place in range(charts.count()):
        charts.nth(place).scroll_into_view_if_needed()
        charts.nth(place).locator(".plot svg.marks").wait_for()
    return charts
