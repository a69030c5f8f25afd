"""A clock that stops before the work is done is found out by the self-check; adapters wait as their device needs it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.cases import open_device

import metalbench

PROGRAM = """
import sys
from metalbench.harness.catalog import Catalog
from metalbench.harness.selfcheck import selfcheck
device = Catalog().open_device(sys.argv[1], "cpu")
if sys.argv[2] == "planted":
    device.wait = lambda outputs: None
result = selfcheck(device)
print(result)
sys.exit(0 if result.ok else 3)
"""


def selfcheck(framework, plant):
    """In a process of its own: other tests' threads and allocations would disturb its clock."""
    command = [sys.executable, "-c", PROGRAM, framework, plant]
    ours = {**os.environ, "PYTHONPATH": str(Path(metalbench.__file__).parent.parent)}  # it may not be installed here
    return subprocess.run(command, env=ours, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.parametrize("framework", ["jax", "mlx"])
def test_a_missing_wait_is_refused(framework):
    open_device(framework)
    answer = selfcheck(framework, "planted")
    assert answer.returncode == 3, answer.stdout + answer.stderr
    assert "the clock" in answer.stdout


@pytest.mark.parametrize("framework", ["torch", "jax", "mlx", "tensorflow"])
def test_an_honest_adapter_is_believed(framework):
    open_device(framework)
    answer = selfcheck(framework, "as it is")
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize(("kind", "name"), [("mps", "torch.mps.synchronize"), ("cuda", "torch.cuda.synchronize")])
def test_torch_waits_for_an_asynchronous_device(kind, name, monkeypatch):
    open_device("torch")
    from metalbench.backends.torch.device import TorchDevice

    waited = []
    monkeypatch.setattr(name, lambda: waited.append(name))
    TorchDevice(kind).wait({})
    assert waited == [name]


def test_tensorflow_waits_for_an_asynchronous_device(monkeypatch):
    open_device("tensorflow")
    from metalbench.backends.tensorflow.device import TensorflowDevice

    waited = []
    monkeypatch.setattr("tensorflow.test.experimental.sync_devices", lambda: waited.append(True))
    TensorflowDevice("metal").wait({})
    assert waited


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_on_the_cpu_a_synchronous_framework_is_done_when_wait_returns(framework):
    """The product of large matrices takes far longer than reading its result, once it has been waited for."""
    device = open_device(framework)
    a = device.put(np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32))
    device.wait({"out": device.product(a, a)})
    worked, read = [], []
    for _ in range(5):
        begin = time.perf_counter()
        out = device.product(a, a)
        device.wait({"out": out})
        done = time.perf_counter()
        np.asarray(out).reshape(-1)[-1:].copy()
        worked.append(done - begin)
        read.append(time.perf_counter() - done)
    assert min(read) < 0.3 * min(worked)
