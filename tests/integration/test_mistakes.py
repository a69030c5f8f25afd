"""A user's mistake gets one clear sentence and exit status 2, and loses nothing."""

import os
import sqlite3

import pytest
from support.command import only_sentence

MISTAKES = {
    "unknown backend": (["run", "--backend", "torch-gpu"], ["no backend called 'torch-gpu'", "torch-cpu"]),
    "unknown workload": (["run", "--workload", "atention"], ["no workload called 'atention'", "attention"]),
    "unknown suite": (["run", "--suite", "quik"], ["no suite called 'quik'", "quick"]),
    "unknown variant": (["run", "--variant", "fuse"], ["no variant called 'fuse'", "fused"]),
    "unknown case key": (["run", "--workload", "fft", "--case", "lenght=1009"], ["no case parameter called 'lenght'", "length"]),
    "unknown case value": (["run", "--workload", "fft", "--case", "length=7"], ["length=7", "1009"]),
    "malformed case": (["run", "--case", "causal"], ["'causal' is not of the form key=value"]),
    "negative budget": (["run", "--budget", "-1"], ["--budget -1.0 is not a time"]),
    "no folder for the document": (["run", "--json", "nowhere/out.json"], ["nowhere/out.json", "no folder"]),
    "unknown run": (["show", "lastest", "--store", "empty.sqlite"], ["holds no runs yet"]),
    "idle environment": (["run", "--backend", "jax-cpu", "--env", "mlx-cpu:mlx==0.31.0"], ["mlx-cpu", "--backend leaves out"]),
    "a typo costs no installation": (["run", "--env", "jax-cpu:jax==99", "--workload", "typo"], ["no workload called 'typo'"]),
    "nothing to resume": (["run", "--resume", "--store", "empty.sqlite"], ["no unfinished run"]),
    "resume with a plan": (["run", "--resume", "r", "--suite", "large"], ["as it was planned", "leave out"]),
    "resume as a rehearsal": (["run", "--resume", "--dry-run"], ["as it was planned", "leave out"]),
    "unknown kind of store": (["show", "--store", "mysql://localhost/bench"], ["mysql://localhost/bench", "sqlite:///"]),
    "malformed store": (["show", "--store", "://"], ["'://'", "sqlite:///"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_sentence_names_the_thing_and_the_remedy(bench, mistake):
    arguments, words = MISTAKES[mistake]
    sentence = only_sentence(bench(*arguments))
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("suite = quick", ["bench.toml", "line 1"]),
        ("sweet = 'quick'", ["bench.toml", "sweet"]),
        ("launches = 0", ["bench.toml", "launches"]),
        ("budget = 'long'", ["bench.toml", "budget"]),
        ("plugins = ['missing.py']", ["missing.py", "does not exist"]),
        ("plugins = ['broken.py']", ["broken.py", "line 2", "No module named 'nosuchthing'"]),
        ("plugins = ['empty.py']", ["empty.py", "WORKLOAD"]),
        ("suite = 'quik'", ["no suite called 'quik'"]),
        ("backends = ['jaks-cpu']", ["no backend called 'jaks-cpu'", "jax-cpu"]),
    ],
)
def test_a_broken_configuration(bench, text, words):
    (bench.folder / "bench.toml").write_text(text, "utf-8")
    (bench.folder / "broken.py").write_text('"""A plug-in."""\nimport nosuchthing\n', "utf-8")
    (bench.folder / "empty.py").write_text("", "utf-8")
    sentence = only_sentence(bench("run", "--dry-run"))
    for word in words:
        assert word in sentence


def test_a_configuration_that_is_not_text(bench):
    (bench.folder / "bench.toml").write_bytes(b"suite = '\xff'")
    assert "UTF-8" in only_sentence(bench("run", "--dry-run"))


@pytest.mark.parametrize("command", [["show"], ["list", "runs"], ["run", "--backend", "numpy-cpu", "--workload", "steady"]])
@pytest.mark.parametrize("state", ["damaged", "foreign", "newer", "folder"])
def test_a_store_that_cannot_be_used_is_left_as_it_is(bench, command, state):
    bench.configure(plugins=["faulty.py", "steady.py"])
    store = bench.folder / "results.sqlite"
    if state == "damaged":
        store.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)
    elif state == "foreign":
        with sqlite3.connect(store) as db:
            db.execute("create table recipes (name text)")
    elif state == "newer":
        assert bench("list", "runs", "--store", str(store)).returncode == 0
        with sqlite3.connect(store) as db:
            db.execute("update meta set value = '999' where key = 'schema'")
            db.commit()
            db.execute("pragma wal_checkpoint(truncate)")
    else:
        store.mkdir()
    before = store.read_bytes() if store.is_file() else None
    sentence = only_sentence(bench(*command, "--store", str(store)))
    assert "results.sqlite" in sentence
    assert {"damaged": "damaged", "foreign": "something else", "newer": "newer metalbench", "folder": "can't be"}[state] in sentence
    if before is not None:
        assert store.read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_store_in_a_folder_that_may_not_be_written(bench):
    locked = bench.folder / "locked"
    locked.mkdir(mode=0o500)
    assert "can't be written" in only_sentence(bench("show", "--store", str(locked / "results.sqlite")))


def test_a_store_below_a_file(bench):
    (bench.folder / "file").write_text("")
    assert "can't be made" in only_sentence(bench("show", "--store", str(bench.folder / "file" / "results.sqlite")))


def test_a_finished_run_is_not_resumed(bench):
    bench.configure(plugins=["faulty.py", "steady.py"])
    arguments = ("--workload", "steady", "--backend", "numpy-cpu", "--launches", "1", "--budget", "0.02", "--store", "results.sqlite")
    assert bench("run", *arguments, "--label", "done", "--quiet").returncode == 0
    assert "is finished already" in only_sentence(bench("run", "--resume", "done", "--store", "results.sqlite"))
    assert "did you mean done?" in only_sentence(bench("show", "dome", "--store", "results.sqlite"))


def test_a_mistyped_option_is_a_usage_error(bench):
    result = bench("run", "--bakend", "torch-cpu")
    assert result.returncode == 2
    assert "--backend" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_cache_that_cannot_be_made(bench):
    bench.configure(plugins=["faulty.py", "steady.py"])
    (bench.folder / "file").write_text("")
    environment = {**os.environ, "XDG_CACHE_HOME": str(bench.folder / "file" / "cache")}
    sentence = only_sentence(bench("run", "--workload", "steady", "--backend", "numpy-cpu", env=environment))
    assert "may be written to" in sentence


def test_a_store_in_the_configuration_lies_beside_it(bench):
    bench.configure("store = 'here.sqlite'")
    (bench.folder / "below").mkdir()
    assert bench("list", "runs", cwd_below="below").returncode == 0
    assert (bench.folder / "here.sqlite").exists()
