"""``bench doctor``: quick, whole, and every line ends in what to do; the kinds of trouble are told apart."""

import shutil
import subprocess
import sys
import time

import pytest

from metalbench.harness import probing
from metalbench.harness.capability import Capability
from metalbench.harness.catalog import Catalog
from metalbench.harness.environments import Column, Environment, current, home
from metalbench.harness.executor import Worker
from metalbench.harness.host import accelerators
from metalbench.harness.probing import Prober
from metalbench.harness.recipes import Recipes

BRITTLE = """
import os, time
from metalbench.backends.base import DeviceKind, Framework, Unsupported
KIND = "{kind}"
FRAMEWORK = Framework(name="odd", prefix="odd", title="Odd", package="{package}", distributions=["odd"], install="odd", devices={{"cpu": DeviceKind()}})
class Device:
    def put(self, array, dtype=None): return array
    def get(self, array): return array
    def product(self, a, b): return a @ b + 1
    def facts(self): return {{}}
def open_device(kind):
    if KIND == "crash": os.abort()
    if KIND == "hang": time.sleep(600)
    if KIND == "no device": raise Unsupported("Odd lists no device")
    if KIND == "broken": raise RuntimeError("symbol not found")
    if KIND == "not installed": import nosuchframework
    return Device()
"""  # noqa: E501 - a plug-in in as few lines as possible


def test_every_line_ends_in_what_to_do_and_all_backends_answer_in_time(bench):
    begin = time.monotonic()
    result = bench("doctor")
    seconds = time.monotonic() - begin
    assert result.returncode == 0, result.stderr
    assert seconds < 15
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    words = ("bench ", "may be deleted", "use a machine", "Quit that work", "see the next lines", "Connect it", "Run `", "try again")
    for line in lines:
        assert any(word in line.rpartition("   ")[2] for word in words), line
    for backend in Catalog().backends:
        (line,) = [line for line in lines if line.startswith(f"{backend} ")]
        assert "bench run --backend" in line or "unavailable" in line or "timeout" in line


def test_what_cannot_be_exercised_here_is_said(bench):
    result = bench("doctor", "--coverage")
    assert result.returncode == 0, result.stderr
    here, _, elsewhere = result.stdout.partition("Not exercised here:")
    if "metal" not in accelerators():
        for what in ("backend torch-mps", "environment jax-metal", "power assertion", "CPU fallback on MPS"):
            assert what in elsewhere
    assert "backend mlx-cpu" in here


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        ("crash", "crashed", "SIGABRT"),
        ("no answer", "timeout", "no answer within"),
        ("no device", "unavailable", "Odd lists no device"),
        ("broken", "failed", "symbol not found"),
        ("not installed", "unavailable", "not installed in"),
        ("wrong answer", "failed", "is wrong on this device"),
    ],
)
def test_troubles_are_told_apart_and_each_has_a_remedy(tmp_path, kind, status, words):
    plugin = tmp_path / "odd.py"
    package = "nosuchframework" if kind == "not installed" else "odd"
    plugin.write_text(BRITTLE.format(kind={"no answer": "hang"}.get(kind, kind), package=package), "utf-8")
    catalog = Catalog([plugin])
    prober = Prober(catalog, Recipes(), [str(plugin)], patience=3 if kind == "no answer" else 60)
    (found,) = prober.probe([Column("odd-cpu", current())]).values()
    assert (found.status, found.cause) == (status, kind)
    assert words in found.reason
    assert found.remedy


def environments(tmp_path):
    """(cause, words, environment): what the parent finds out without starting a framework."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    mismatch = tmp_path / "mismatch"
    shutil.copytree(bare, mismatch, symlinks=True)
    site = next((mismatch / "lib").glob("python*/site-packages"))
    versions = {"msgspec": "0.20", "numpy": "2.1", "psutil": "7.0", "tensorflow": "2.21.0", "tensorflow-metal": "1.2.0"}
    for name, version in versions.items():
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return [
        ("not installed", "has not been created", Environment("tf-cpu", "")),
        ("not installed", "lacks what a worker needs: msgspec", Environment("bare", str(bare / "bin" / "python"))),
        ("not installed", "has been removed", Environment("old", str(home() / "old" / "bin" / "python"))),
        ("mismatch", "importing tensorflow itself fails", Environment("mismatch", str(mismatch / "bin" / "python"))),
        ("broken", "is not a Python that runs", Environment("gone", str(tmp_path / "gone" / "bin" / "python"))),
    ]


def test_what_is_wrong_with_an_environment_is_known_before_anything_is_started(tmp_path):
    for cause, words, environment in environments(tmp_path):
        (found,) = Prober(Catalog(), Recipes(), []).probe([Column("tf-cpu", environment)]).values()
        assert isinstance(found, Capability)
        assert (found.status, found.cause) == ("unavailable", cause)
        assert words in found.reason
        assert found.remedy


def test_an_answer_is_remembered_until_the_environment_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    started = []
    monkeypatch.setattr(probing, "Worker", lambda *given, **named: started.append(given) or Worker(*given, **named))
    same = current()
    for environment in (same, same, Environment(same.name, same.python, {"OTHERWISE": "1"})):
        (found,) = Prober(Catalog(), Recipes(), []).probe([Column("mlx-cpu", environment)]).values()
        assert found.status == "ok"
    assert len(started) == 2
