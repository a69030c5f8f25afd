"""The script that makes the documentation's pictures, on a small real run of the frameworks that are here."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("screenshots.py")
BACKENDS = {"torch": "torch-cpu", "jax": "jax-cpu", "mlx": "mlx-cpu", "tensorflow": "tf-cpu"}


def test_every_kind_of_page_of_a_real_run_is_photographed(bench, browser):
    """``browser``: skips where there is none."""
    here = [backend for framework, backend in BACKENDS.items() if importlib.util.find_spec(framework)]
    if not here:
        pytest.skip("no framework is installed")
    measured = ("run", "--workload", "fft", "--case", "kind=complex", "--launches", "1", "--budget", "0.05", "--quiet")
    for _ in range(2):
        result = bench(*measured, "--backend", ",".join(here), "--store", "results.sqlite")
        assert result.returncode == 0, result.stderr
    browser.close()  # of this process; the script has its own
    made = subprocess.run(
        [sys.executable, str(SCRIPT), str(bench.folder / "results.sqlite"), str(bench.folder / "pictures")],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    pictures = {file.stem: file.read_bytes() for file in (bench.folder / "pictures").glob("*.png")}
    assert {*pictures} == {
        *("overview", "overview-dark", "overview-400", "run", "cell", "scaling", "roofline", "operators", "claims", "history", "compare")
    }
    assert all(content.startswith(b"\x89PNG") and len(content) > 10_000 for content in pictures.values())
    assert pictures["overview"] != pictures["overview-dark"]
