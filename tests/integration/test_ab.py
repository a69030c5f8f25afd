"""`bench ab` with real workers: variants, revisions and environments that differ by a known amount, and what it keeps."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support.command import PLUGINS, only_sentence, workers

from metalbench.results.store import open_store

PACED = ("--workload", "paced", "--case", "size=24", "--backend", "numpy-cpu", "--budget", "0.1")

#: As tests/plugins/paced.py, but that the count is the revision's; the product is a package's of the repository.
PLUGIN = """
from paced import Paced
from metalbench.backends.base import Implementation

WORKLOAD = Paced()


def build(device, case, inputs):
    from mine.product import repeated

    return repeated(device, device.put(inputs["a"]))


IMPLEMENTATIONS = {("numpy", "paced"): Implementation({"base": build}, "base")}
"""
PACKAGE = """
def repeated(device, a):
    def step():
        for _ in range(COUNT):
            out = device.product(a, a)
        return {"out": out}

    return step
"""


def cells(result):
    assert result.returncode in {0, 1}, result.stderr
    return {cell["case"]["size"]: cell["time"] for cell in json.loads(result.stdout)["cells"]}


def test_a_slower_variant_is_found_and_fails_the_job_when_asked_to(bench):
    bench.configure('store = "results.sqlite"', plugins=["faulty.py", "paced.py"])
    result = bench("ab", "--base", "base", "--candidate", "slower40", *PACED, "--format", "json", "--fail-on", "slower", "--seed", "1")
    found = cells(result)[24]
    assert result.returncode == 1
    assert found["verdict"] == "slower"
    assert found["ratio"] == pytest.approx(1.40, abs=0.08)
    assert "After 10 pairs" in result.stderr
    with open_store(str(bench.folder / "results.sqlite")) as store:
        candidate, base = store.run("latest"), store.run("latest~1")
        assert (candidate.beside, base.beside) == (base.id, candidate.id)
        assert [run.state for run in (base, candidate)] == ["finished"] * 2
        ours, theirs = store.records(base.id), store.records(candidate.id)
    assert {record.launch for record in ours} == {record.launch for record in theirs}
    for record in ours + theirs:
        found = record.measurement
        assert len(found.turns) == 32
        assert sum(found.turns) <= len(found.spans_ns)
    again = bench("compare", base.id, candidate.id, "--format", "json")
    assert cells(again)[24]["verdict"] == "slower"


def test_two_revisions_of_a_user_s_own_kernel(bench):
    """The plug-in is the same file in both; what changed is a package of the repository, which is not installed."""

    def git(*arguments):
        identity = ("-c", "user.name=n", "-c", "user.email=e@x")
        return subprocess.run(["git", *identity, *arguments], cwd=bench.folder, check=True, capture_output=True, text=True).stdout.strip()

    bench.configure('store = "out/results.sqlite"', plugins=["faulty.py"])
    settings = (bench.folder / "bench.toml").read_text("utf-8").replace("faulty.py'", "faulty.py', 'mine/plugin.py'")
    (bench.folder / "bench.toml").write_text(settings, "utf-8")
    (bench.folder / "mine").mkdir()
    (bench.folder / "mine" / "plugin.py").write_text(f"import sys\nsys.path.append({str(PLUGINS)!r})\n{PLUGIN}", "utf-8")
    git("init", "-q", "-b", "trunk")
    (bench.folder / ".gitignore").write_text("out\n", "utf-8")
    for count in (140, 100):
        (bench.folder / "mine" / "product.py").write_text(PACKAGE.replace("COUNT", str(count)), "utf-8")
        git("add", ".")
        git("commit", "-q", "-m", str(count))
    (bench.folder / "mine" / "product.py").write_text(PACKAGE.replace("COUNT", "140"), "utf-8")
    committed = cells(bench("ab", "--base", "trunk~1", "--candidate", "trunk", *PACED, "--format", "json"))[24]
    assert committed["verdict"] == "faster"
    assert committed["ratio"] == pytest.approx(100 / 140, abs=0.05)
    working = cells(bench("ab", "--base", "trunk", *PACED, "--format", "json"))[24]
    assert working["verdict"] == "slower"
    assert working["ratio"] == pytest.approx(1.40, abs=0.08)
    with open_store(str(bench.folder / "out" / "results.sqlite")) as store:
        base = store.run("latest~1")
        assert base.revision == git("rev-parse", "trunk")
        assert store.run("latest").revision == base.revision + "-dirty"
    assert git("worktree", "list").count("\n") == 0
    assert git("status", "--porcelain") == "M mine/product.py"


def test_two_environments(bench):
    """Both are this interpreter, which is as fast as itself."""
    bench.configure('store = "results.sqlite"', plugins=["faulty.py", "paced.py"])
    sides = ("--base", f"numpy-cpu:{sys.executable}", "--candidate", f"numpy-cpu:{sys.prefix}")
    assert cells(bench("ab", *sides, *PACED, "--format", "json", "--quiet"))[24]["verdict"] in {"same", "unsure"}


def test_cells_that_come_to_nothing_are_statuses_and_take_no_other_with_them(bench):
    bench.configure('store = "results.sqlite"\ntimeout = 5\nmemory_limit_gib = 2', plugins=["faulty.py"])
    sides = ("--base", f"numpy-cpu:{sys.executable}", "--candidate", f"numpy-cpu:{sys.prefix}")
    cases = [word for fault in ("none", "kill", "raise", "wrong") for word in ("--case", f"fault={fault}")]
    result = bench("ab", *sides, "--workload", "faults", *cases, "--budget", "0.05", "--pairs", "8", "--format", "json", "--quiet")
    found = {
        cell["case"]["fault"]: (cell["status"], cell["time"] and cell["time"]["verdict"]) for cell in json.loads(result.stdout)["cells"]
    }
    assert result.returncode == 0, result.stderr
    assert found.pop("none")[1] in {"same", "unsure"}
    assert found == {name: ([status] * 2, None) for name, status in (("kill", "crashed"), ("raise", "failed"), ("wrong", "wrong"))}


def test_interrupted_it_keeps_what_is_finished_and_leaves_no_worker(bench):
    bench.configure('store = "results.sqlite"', plugins=["faulty.py", "paced.py"])
    process = bench.start("ab", "--base", "base", "--candidate", "slower6", *PACED)
    deadline = time.monotonic() + 120
    kept = 0
    while kept < 4 and time.monotonic() < deadline:
        time.sleep(0.2)
        if (bench.folder / "results.sqlite").exists():
            with open_store(str(bench.folder / "results.sqlite")) as store:
                kept = sum(run.records for run in store.runs())
    assert kept >= 4
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert workers() == []
    with open_store(str(bench.folder / "results.sqlite")) as store:
        assert {run.state for run in store.runs()} == {"interrupted"}
        assert sum(run.records for run in store.runs()) >= kept


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--base", "no-such-thing"), "no environment, variant or git revision called 'no-such-thing'"),
        (("--base", "base", "--candidate", "numpy-cpu:/no/where"), "is a variant and"),
        (("--base", "base", "--fail-on", "never"), "outcome for --fail-on"),
        (("--base", "HEAD"), "No plug-in of bench.toml is in this repository"),
    ],
)
def test_a_mistake_is_one_sentence(bench, arguments, words):
    bench.configure('store = "results.sqlite"', plugins=["faulty.py", "paced.py"])
    subprocess.run(["git", "init", "-q"], cwd=bench.folder, check=True)
    identity = ("-c", "user.name=n", "-c", "user.email=e@x")
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=bench.folder, check=True, env=os.environ)
    assert words in only_sentence(bench("ab", *arguments, *PACED))
