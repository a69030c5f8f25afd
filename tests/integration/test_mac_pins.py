"""The contract suite on the releases that a Mac's plug-ins need, in the environment that holds them: JAX 0.5.0 and TensorFlow 2.19.1."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from metalbench.harness import provisioning
from metalbench.harness.recipes import Recipes
from metalbench.harness.uv import uv

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.skipif(sys.platform != "linux", reason="on a Mac the environments themselves are there to be tried")
@pytest.mark.timeout(1800)
def test_every_adapter_keeps_its_contract_on_a_macs_releases(bench, tmp_path):
    result = bench("env", "create", "mac-twin", timeout=900)
    assert result.returncode == 0, result.stderr
    python = provisioning.environment(Recipes().named("mac-twin")).python
    uv("pip", "install", "--python", python, "--target", str(tmp_path / "pytest"), "pytest", "pytest-timeout", "hypothesis")
    paths = os.pathsep.join([str(ROOT / "src"), str(tmp_path / "pytest")])
    command = [python, "-m", "pytest", "tests/contract", "-q", "-p", "no:cacheprovider"]
    ours = {**os.environ, "PYTHONPATH": paths, "CONTRACT_ALL_FRAMEWORKS": "1"}  # one that doesn't import is a failure, not a skip
    suite = subprocess.run(command, cwd=ROOT, env=ours, capture_output=True, text=True, timeout=1500, check=False)
    assert suite.returncode == 0, suite.stdout[-4000:] + suite.stderr[-1000:]
    held = provisioning.made("mac-twin").pins
    assert {"jax==0.5.0", "tensorflow-cpu==2.19.1"} <= set(held)
