"""`bench compare` and `bench history` as a user runs them, on stores of known contents."""

import json
import os
import re
import subprocess

import msgspec
import numpy as np
import pytest
from support.command import only_sentence
from support.records import make_cell, make_run, timed

from metalbench.harness.host import host
from metalbench.results.store import open_store


def put(bench, name, ns, *, started=1.0, count=8, cells=None, spread=0.005, changes=None, **run):
    """A run of launches around ``ns`` in the store that is used without --store."""
    rng = np.random.default_rng(round(started))
    cells = cells or [make_cell()]
    records = [
        timed(cell, launch, [ns * rng.normal(1, spread)] * 3, **({"facts": {"torch": "2.13.0"}} | (changes or {})))
        for cell in cells
        for launch in range(count)
    ]
    whole = msgspec.structs.replace(make_run(cells, name=name, started=started), host=host(), state="finished", **run)
    with open_store(str(bench.folder / "results.sqlite")) as store:
        store.receive(whole, records)


@pytest.fixture
def stored(bench):
    bench.configure('store = "results.sqlite"')
    put(bench, "before", 1e6, started=1.0, label="main")
    put(bench, "after", 1.2e6, started=2.0, changes={"facts": {"torch": "2.14.0"}})
    return bench


def test_fail_on_decides_the_exit_status_and_nothing_else_does(stored):
    found = stored("compare", "main", "latest")
    assert found.returncode == 0, found.stderr
    assert "SLOWER" in found.stdout
    assert "torch 2.13.0 → 2.14.0" in found.stdout
    assert stored("compare", "main", "latest", "--fail-on", "slower,wrong").returncode == 1
    assert stored("compare", "latest", "main", "--fail-on", "slower,wrong").returncode == 0
    assert stored("compare", "main", "latest", "--fail-on", "slower", "--threshold", "30").returncode == 0
    assert stored("compare", "main", "main", "--fail-on", "slower").returncode == 0


def test_unsure_never_fails(bench):
    bench.configure('store = "results.sqlite"')
    put(bench, "before", 1e6, count=3, spread=0.3)
    put(bench, "after", 2e6, started=2.0, count=3, spread=0.3)
    found = bench("compare", "before", "after", "--fail-on", "slower,wrong,larger")
    assert found.returncode == 0
    assert "UNSURE" in found.stdout
    assert "fewer than 5" in found.stdout


def test_json_markdown_and_picture_say_the_same(stored):
    document = json.loads(stored("compare", "latest~1", "--format", "json").stdout)
    (cell,) = document["cells"]
    assert cell["time"]["verdict"] == "slower"
    assert cell["time"]["low"] < 1.2 < cell["time"]["high"]
    markdown = stored("compare", "latest~1", "--format", "markdown", "--svg", "i.svg").stdout
    assert f"{cell['time']['ratio']:.3f}×" in markdown
    assert "<svg" in (stored.folder / "i.svg").read_text("utf-8")


def test_on_github_findings_are_annotated(stored):
    found = stored("compare", "main", "--fail-on", "slower", env=os.environ | {"GITHUB_ACTIONS": "true"})
    assert found.returncode == 1
    assert re.search(r"^::error title=metalbench::w size=8.* slower$", found.stderr, re.MULTILINE), found.stderr


def test_what_was_not_compared_is_an_error_after_the_table(stored):
    put(stored, "more", 1e6, started=3.0, cells=[make_cell(), make_cell(size=9)])
    found = stored("compare", "main", "more")
    assert "torch-cpu" in found.stdout
    assert found.returncode == 2
    assert "1 cells were not measured on both sides" in found.stderr
    assert stored("compare", "main", "more", "--case", "size=8").returncode == 0
    assert "have no cell that these options admit" in only_sentence(stored("compare", "main", "more", "--case", "size=77"))


def test_nothing_timed_is_not_equal(bench):
    bench.configure('store = "results.sqlite"')
    for started, name in enumerate(("a", "b"), start=1):
        put(
            bench,
            name,
            1e6,
            started=started,
            count=1,
            changes={"status": "unavailable", "reason": "PyTorch is not installed", "spans_ns": []},
        )
    found = bench("compare", "a", "b")
    assert found.returncode == 2
    assert "Nothing was timed on both sides" in found.stderr
    assert "PyTorch is not installed" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compare", "nightly"), "no run called 'nightly'"),
        (("compare", "main", "--fail-on", "slow"), "did you mean slower"),
        (("compare", "main", "missing.sqlite#x"), "no run called"),
        (("compare", "main", "bench.toml"), "no format that can be imported"),
        (("compare", "main", "results.sqlite#nightly"), "no run called 'nightly'"),
        (("compare", "main", "--svg", "no/where.svg"), "can't be written"),
        (("history", "--workload", "nothing"), "No cell that these options admit"),
    ],
)
def test_a_mistake_is_one_sentence(stored, arguments, words):
    found = stored(*arguments)
    assert found.returncode == 2
    (line,) = found.stderr.strip().splitlines()
    assert line.startswith("bench: ")
    assert words in line


def test_a_run_is_named_by_store_file_and_revision(stored, tmp_path):
    def git(*arguments):
        identity = ("-c", "user.name=n", "-c", "user.email=e@x")
        return subprocess.run(["git", *identity, *arguments], cwd=stored.folder, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "trunk")
    git("commit", "-q", "--allow-empty", "-m", "one")
    first = git("rev-parse", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", "two")
    put(stored, "old", 1e6, started=5.0, revision=first)
    put(stored, "new", 1.2e6, started=6.0, revision=git("rev-parse", "HEAD"))
    assert "SLOWER" in stored("compare", "trunk~1", "trunk").stdout
    assert "SLOWER" in stored("compare", "trunk~1", "HEAD", "--format", "markdown").stdout
    stored("export", "jsonl", "old", "new", "-o", "both.jsonl")
    assert "SLOWER" in stored("compare", "both.jsonl#old", "both.jsonl").stdout
    place = stored.folder / "results.sqlite"
    assert "SLOWER" in stored("compare", f"{place}#old", f"sqlite:///{place}", "--store", str(tmp_path / "other.sqlite")).stdout
    git("commit", "-q", "--allow-empty", "-m", "three")
    assert "was measured by no run of this store" in only_sentence(stored("compare", "trunk~1", "trunk"))
    put(stored, "dirty", 1e6, started=7.0, revision=git("rev-parse", "HEAD") + "-dirty")
    assert "only with uncommitted changes" in only_sentence(stored("compare", "trunk~1", "trunk"))


def test_another_machine_needs_across(stored):
    other = msgspec.structs.replace(host(), key="elsewhere")
    with open_store(str(stored.folder / "results.sqlite")) as store:
        cell = make_cell()
        run = msgspec.structs.replace(make_run([cell], name="there", started=9.0), host=other)
        store.receive(run, [timed(cell, launch, [10**6]) for launch in range(5)])
    assert "--across" in only_sentence(stored("compare", "main", "there"))
    assert stored("compare", "main", "there", "--across").returncode == 0


def test_history_names_the_run_revision_and_versions_of_a_step(bench):
    bench.configure('store = "results.sqlite"')
    for number in range(24):
        new = number >= 15
        put(
            bench, f"run{number:02}", 1.1e6 if new else 1e6, started=1e6 + number * 86400, revision=f"{number:040x}",
            changes={"facts": {"torch": "2.14.0" if new else "2.13.0"}},
        )  # fmt: skip
    found = bench("history")
    assert found.returncode == 0, found.stderr
    assert "run15" in found.stdout
    assert "torch 2.13.0 → 2.14.0" in found.stdout
    (series,) = json.loads(bench("history", "--workload", "w", "--format", "json").stdout)
    (change,) = series["changes"]
    assert (change["run"], change["previous_run"], change["state"]) == ("run15", "run14", "confirmed")
    assert change["ratio"] == pytest.approx(1.1, rel=0.01)
    assert change["revision"] == f"{15:040x}"


def test_the_newest_run_alone_is_a_suspect_and_runs_measured_beside_others_are_no_points(bench):
    bench.configure('store = "results.sqlite"')
    for number in range(12):
        put(bench, f"run{number:02}", 1.3e6 if number == 11 else 1e6, started=1e6 + number * 86400)
    put(bench, "ab", 5e6, started=9e9, beside="other")
    (series,) = json.loads(bench("history", "--format", "json").stdout)
    assert [change["state"] for change in series["changes"]] == ["unconfirmed"]
    assert len(series["points"]) == 12
