"""Environments made by uv from a real index: several releases side by side, made whole or not at all, and refused where they can't work."""

import json
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.command import Bench, only_sentence

from metalbench.harness import provisioning
from metalbench.harness.catalog import Catalog
from metalbench.harness.columns import parse
from metalbench.harness.environments import home, place
from metalbench.harness.locking import lock_problems
from metalbench.harness.recipes import Recipes
from metalbench.harness.uv import uv

ONE_CELL = ("--workload", "fft", "--case", "length=1009", "--budget", "0.05", "--json", "o.json")
RELEASES = {"mlx-cpu:mlx==0.31.0": "0.31.0", "mlx-cpu": "0.32.4", "jax-cpu:jax==0.9.0": "0.9.0", "jax-cpu": "0.10.2"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("environments"))
    result = bench("env", "create", *RELEASES)
    assert result.returncode == 0, result.stderr
    yield bench
    assert bench("env", "remove", *RELEASES).returncode in {0, 2}  # a test has removed one of them


def test_two_releases_each_of_two_frameworks_are_columns_of_one_run(made):
    environments = [word for name in RELEASES for word in ("--env", name)]
    result = made("run", *environments, *ONE_CELL, "--launches", "2")
    assert result.returncode == 0, result.stderr
    cells = json.loads((made.folder / "o.json").read_text("utf-8"))["cells"]
    assert {cell["environment"]: (cell["status"], cell["facts"][cell["backend"][:3]]) for cell in cells} == {
        name: ("ok", version) for name, version in RELEASES.items()
    }
    header = next(line for line in result.stdout.splitlines() if line.strip().startswith("case"))
    for column in ("mlx-cpu (mlx==0.31.0)", "mlx-cpu (0.32.4)", "jax-cpu (jax==0.9.0)", "jax-cpu (0.10.2)"):
        assert column in header


def test_ratios_are_to_one_column_named_by_its_heading(made):
    for name in ("jax-cpu (0.10.2)", "mlx-cpu (mlx==0.31.0)"):
        assert f"ratios are to {name}" in " ".join(made("show", "--relative-to", name).stdout.split())
    assert "in several environments" in only_sentence(made("show", "--relative-to", "jax-cpu"))
    assert "no column called 'jax-gpu'" in only_sentence(made("show", "--relative-to", "jax-gpu"))


def test_the_managed_environment_is_taken_before_the_interpreter_that_runs_this(made):
    result = made("run", "--backend", "mlx-cpu", *ONE_CELL, "--launches", "1")
    assert result.returncode == 0, result.stderr
    assert [cell["environment"] for cell in json.loads((made.folder / "o.json").read_text("utf-8"))["cells"]] == ["mlx-cpu"]


def test_what_is_there_is_listed_left_alone_and_checked(made):
    assert "is there already" in made("env", "create", "jax-cpu").stdout
    line = next(line for line in made("env", "list").stdout.splitlines() if line.startswith("jax-cpu:jax==0.9.0"))
    assert "jax 0.9.0" in line
    result = made("env", "check")
    assert (result.returncode, result.stdout.count(": ok")) == (0, len(RELEASES))


def test_an_environment_that_lost_a_package_is_found_out(made):
    python = provisioning.environment(Recipes().named("mlx-cpu")).python
    uv("pip", "uninstall", "--python", python, "mlx")
    result = made("env", "check", "mlx-cpu")
    assert result.returncode == 1
    assert "mlx is gone" in result.stdout
    assert made("env", "remove", "mlx-cpu").returncode == 0
    assert made("env", "create", "mlx-cpu").returncode == 0


def test_removing_one_leaves_the_others_whole(made):
    assert made("env", "remove", "mlx-cpu:mlx==0.31.0").returncode == 0
    result = made("env", "check")
    assert (result.returncode, result.stdout.count(": ok")) == (0, len(RELEASES) - 1)
    assert "no environment called" in only_sentence(made("env", "remove", "mlx-cpu:mlx==0.31.0"))


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["interrupt", "terminate", "kill"])
@pytest.mark.parametrize("moment", range(4))
def test_a_creation_that_is_killed_leaves_nothing_behind(bench, made, kill, moment):
    name = "jax-cpu:jax==0.9.1"
    before = {path.name for path in home().iterdir()}
    process = bench.start("env", "create", name, process_group=0)
    time.sleep(random.Random(f"{kill} {moment}").uniform(0.3, 2.0))
    os.kill(process.pid, kill)
    process.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while (left := {path.name for path in home().iterdir()} - before) and time.monotonic() < deadline and process.returncode:
        time.sleep(0.05)
    whole = left == {place(name).name}  # it was quicker
    assert not left or whole
    if whole:
        assert bench("env", "check", name).returncode == 0
        assert bench("env", "remove", name).returncode == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jax-metal:jax==0.10.2", ["jax-metal 0.1.1", "jax 0.10.2", "0.5.0 at most", "jax-mps"]),
        ("tf-metal:tensorflow==2.21.0", ["tensorflow 2.21.0", "importing tensorflow itself fails", "tensorflow==2.19.1"]),
        ("newest", ["jax-metal 0.1.1", "0.5.0 at most"]),
    ],
)
def test_pins_that_resolve_and_then_fail_are_refused_with_the_reason(bench, name, words):
    bench.configure('[environments.newest]\nbackends = ["jax-metal"]\nsystems = ["darwin"]\nrequirements = ["jax-metal", "jax>=0.10"]')
    sentence = only_sentence(bench("env", "create", name))
    for word in words:
        assert word in sentence


def test_what_does_not_exist_or_is_not_for_this_machine_is_one_sentence(bench):
    assert "no version of jax==99" in only_sentence(bench("env", "create", "jax-cpu:jax==99")).replace("bench: ", "")
    other = "torch-mps" if Recipes().named("torch-cuda").fits() else "torch-cuda"
    assert "not for this machine" in only_sentence(bench("env", "create", other))


def test_a_named_environment_that_is_missing_is_unavailable_with_the_command_that_makes_it(bench):
    bench.configure('[environments."old one"]\nbackends = ["jax-cpu"]\nrequirements = ["jax==0.8.0"]')
    result = bench("run", "--env", "jax-cpu:old one", "--workload", "fft", "--launches", "1", "--json", "o.json")
    assert result.returncode == 0, result.stderr
    for cell in json.loads((bench.folder / "o.json").read_text("utf-8"))["cells"]:
        assert cell["status"] == "unavailable"
        assert "bench env create 'old one'" in cell["reason"]


@pytest.mark.timeout(1200)  # thirty resolutions, against an index that may be slow
def test_every_lock_for_macos_resolves_from_here_with_every_python_it_is_for():
    recipes = Recipes()
    macs = [recipe for recipe in recipes.by_name.values() if "darwin" in recipe.systems]
    with ThreadPoolExecutor(max_workers=6) as pool:
        found = list(pool.map(lambda recipe: lock_problems(recipe, recipes, "darwin"), macs))
    assert dict(zip([recipe.name for recipe in macs], found, strict=True)) == {recipe.name: [] for recipe in macs}


def test_a_lock_that_no_longer_fits_its_recipe_is_found_out(tmp_path):
    (tmp_path / "mine.linux.txt").write_text("jax==0.9.0\nnumpy==2.3.0\n", "utf-8")
    recipes = Recipes({"mine": parse("jax-cpu", Catalog(), Recipes())[0].recipe}, str(tmp_path))
    assert any("0.9.0" in problem for problem in lock_problems(recipes.named("mine"), recipes, "linux"))
