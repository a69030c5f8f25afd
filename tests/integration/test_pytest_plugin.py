"""The fixture ``metalbench`` in pytest sessions of their own, with pytest-benchmark's options as its users know them."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.cases import CATALOG, FRAMEWORKS, open_device

from metalbench.harness.errors import UsageError
from metalbench.harness.outputs import owners

DOCUMENT = (Path(__file__).parent.parent.parent / "docs" / "pytest.md").read_text("utf-8")
EXAMPLE = re.search(r"```python\n# test_speed.py\n(.*?)```", DOCUMENT, re.DOTALL)[1]
QUICK = ("--benchmark-max-time=0.02", "--benchmark-json=out.json")

#: A framework whose arrays are computed behind the caller's back, and one that is not there.
PROMISE = """
import threading
import time

class Promise:
    def __init__(self, seconds):
        self.work = threading.Thread(target=time.sleep, args=(seconds,))
        self.work.start()
"""
PROMISING = """
from types import SimpleNamespace
from metalbench.backends.base import DeviceKind, Framework

FRAMEWORK = Framework(
    name="promise", prefix="promise", title="Promise", package="promise", distributions=["promise"], devices={"cpu": DeviceKind()}
)

def open_device(kind):
    def wait(outputs):
        for promise in outputs.values():
            promise.work.join()
    return SimpleNamespace(wait=wait, facts=lambda: {"promise": "1"})
"""
ABSENT = """
from metalbench.backends.base import DeviceKind, Framework, Unsupported

FRAMEWORK = Framework(
    name="absent", prefix="absent", title="Absent", package="absent", distributions=[], devices={"cpu": DeviceKind(), "gpu": DeviceKind()}
)

def open_device(kind):
    if kind == "gpu":
        raise Unsupported("Absent sees no GPU")
    import absent
"""


class Session:
    """pytest in a folder of its own, with this plug-in and pytest-benchmark and no other."""

    def __init__(self, bench):
        self.folder, self._bench = bench.folder, bench
        self.configure()

    def configure(self, **files):
        """``bench.toml`` with the plug-ins that NumPy serves, and further ones by their names and texts."""
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text, "utf-8")
        self._bench.configure(plugins=["faulty.py", "steady.py", *(self.folder / f"{name}.py" for name in files)])

    def __call__(self, text, *options, plugins=("pytest_benchmark.plugin", "metalbench.harness.pytest_plugin")):
        (self.folder / "test_it.py").write_text(text, "utf-8")
        command = [sys.executable, "-m", "pytest", "--rootdir=.", "-rs", *(part for name in plugins for part in ("-p", name)), *options]
        environment = {**os.environ, "PYTEST_ADDOPTS": "", "COLUMNS": "300"} | ({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if plugins else {})
        result = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=240, check=False)
        counts = {name.rstrip("s"): int(number) for number, name in re.findall(r"(\d+) (passed|failed|skipped|errors?)", result.stdout)}
        return SimpleNamespace(out=result.stdout + result.stderr, status=result.returncode, counts=counts)

    def benchmarks(self):
        document = json.loads((self.folder / "out.json").read_text("utf-8"))
        return {benchmark["name"]: benchmark for benchmark in document["benchmarks"]}


@pytest.fixture
def session(bench):
    return Session(bench)


def test_a_workload_is_measured_and_told_in_full(session):
    text = """
def test_steady(metalbench):
    metalbench("steady", backend="numpy-cpu", case={"size": 32})
"""
    result = session(text, "--benchmark-max-time=0", "--benchmark-min-rounds=7", "--benchmark-json=out.json")
    assert result.status == 0, result.out
    (found,) = session.benchmarks().values()
    assert found["group"] == "steady dtype=float32 size=32"
    assert found["stats"]["rounds"] == len(found["stats"]["data"]) == 7
    told = found["extra_info"]
    expected = {
        "workload": "steady", "version": 1, "case": {"dtype": "float32", "size": 32}, "backend": "numpy-cpu", "variant": "native",
        "protocol": "latency", "status": "ok", "flops": 2 * 32**3, "bytes": 8 * 32**2, "facts": {"numpy": np.__version__},
    }  # fmt: skip
    assert expected.items() <= told.items()
    assert 0 < told["max_error"] <= told["tolerance"]
    assert told["first_call_ns"] > 0


def test_saved_runs_are_compared(session):
    text = """
import os, time, numpy

def work():
    time.sleep(float(os.environ["SECONDS"]))
    return numpy.ones(1)

def test_work(metalbench):
    metalbench.function(work)
"""
    for seconds, options, status in [
        ("0.002", ["--benchmark-autosave"], 0),
        ("0.002", ["--benchmark-compare", "--benchmark-compare-fail=min:500%"], 0),
        ("0.03", ["--benchmark-compare", "--benchmark-compare-fail=min:500%"], 1),
    ]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SECONDS", seconds)
            result = session(text, "--benchmark-max-time=0.02", *options)
        assert result.status == status, result.out
        assert ("(NOW)" in result.out and "(0001_" in result.out) == ("--benchmark-compare" in options)
    assert "Performance has regressed" in result.out


def test_a_wrong_answer_fails_and_its_figures_are_not_kept(session):
    text = """
import pytest

@pytest.mark.parametrize("fault", ["none", "wrong", "nan", "late"])
def test_fault(metalbench, fault):
    metalbench("faults", backend="numpy-cpu", case={"fault": fault})
"""
    result = session(text, *QUICK)
    assert result.counts == {"passed": 1, "failed": 3}
    assert result.out.count("faults on numpy-cpu is wrong: out is off by") == 2
    assert "faults on numpy-cpu is wrong: out holds NaN" in result.out
    assert list(session.benchmarks()) == ["test_fault[none]"]


def test_installed_it_is_there_by_itself(session):
    text = """
def test_steady(metalbench):
    metalbench("steady", backend="numpy-cpu")
"""
    assert session(text, "--benchmark-disable", plugins=()).counts == {"passed": 1}


def test_what_a_user_s_framework_was_set_to_stays_so(session):
    open_device("torch")
    text = """
import torch

def test_measured(metalbench):
    metalbench("fft", backend="torch-cpu")

def test_gradients_are_still_on():
    assert torch.is_grad_enabled()
"""
    assert session(text, "--benchmark-disable").counts == {"passed": 2}


def test_what_is_not_to_be_had_skips_with_the_reason(session):
    session.configure(absence=ABSENT)
    text = """
import pytest

@pytest.mark.parametrize("backend", ["absent-cpu", "absent-gpu"])
def test_backend(metalbench, backend):
    metalbench("steady", backend=backend)

@pytest.mark.parametrize("workload", ["attention", "dispatch"])  # of which quick has cases and has none
def test_workload(metalbench, workload):
    metalbench(workload, backend="numpy-cpu")
"""
    result = session(text, "-Werror")
    assert result.counts == {"skipped": 4}, result.out
    for reason in ("Absent is not installed in", "Absent sees no GPU", "implementation of attention", "implementation of dispatch"):
        assert reason in result.out


MISTAKES = {
    "metalbench('stedy', backend='numpy-cpu')": "There is no workload called 'stedy'; did you mean steady",
    "metalbench('steady', backend='numpi-cpu')": "There is no backend called 'numpi-cpu'; did you mean numpy-cpu",
    "metalbench('steady', backend='numpy-cpu', variant='nativ')": "There is no variant called 'nativ'; did you mean native",
    "metalbench('steady', backend='numpy-cpu', case={'syze': 1})": "There is no case parameter called 'syze'; did you mean size",
    "metalbench('steady', backend='numpy-cpu', case={'size': 'big'})": "steady has no such case: Expected `int`, got `str` - at `$.size`",
    "metalbench.function(lambda: None)": "The function returned nothing to wait for",
    "metalbench.function(lambda: (numpy.ones(1), object()))": "The function returned builtins.object and numpy.ndarray; return arrays",
    "metalbench.function(numpy.ones, 1, backend='torch-cpu')": "The function returned arrays of numpy-cpu, not of torch-cpu",
}


def test_a_mistake_gets_one_sentence(session):
    open_device("torch")
    tests = "".join(f"def test_{number}(metalbench):\n    {call}\n" for number, call in enumerate(MISTAKES))
    result = session(f"import numpy\n{tests}")
    assert result.counts == {"failed": len(MISTAKES)}, result.out
    for sentence in MISTAKES.values():
        assert result.out.count(sentence) == 1, sentence
    assert ".py:" not in result.out.partition("warnings summary")[0]  # no traceback


def test_the_wait_is_part_of_every_round(session):
    (session.folder / "promise.py").write_text(PROMISE, "utf-8")
    session.configure(promising=PROMISING)
    text = """
from promise import Promise

def test_one(metalbench):
    metalbench.function(Promise, 0.02, backend="promise-cpu")

def test_nested(metalbench):
    metalbench.function(lambda: {"first": [Promise(0.01), None], "rest": (1.0, (Promise(0.03),))})
"""
    result = session(text, *QUICK)
    assert result.counts == {"passed": 2}, result.out
    assert session.benchmarks()["test_one"]["extra_info"]["first_call_ns"] >= 0.02e9
    for name, least in [("test_one", 0.02), ("test_nested", 0.03)]:
        found = session.benchmarks()[name]
        assert min(found["stats"]["data"]) >= least
        assert found["extra_info"]["backend"] == "promise-cpu"


def test_a_lazy_array_takes_as_long_as_by_another_clock(session):
    open_device("mlx")
    text = """
import time
import mlx.core as mx

def timed(a):
    begin = time.perf_counter()
    mx.eval(a @ a)
    return time.perf_counter() - begin

def test_product(metalbench, benchmark):
    a = mx.ones((384, 384))
    mx.eval(a)
    metalbench.function(lambda: a @ a, backend="mlx-cpu")
    benchmark.extra_info["independent"] = min(timed(a) for _ in range(20))
"""
    result = session(text, "--benchmark-min-rounds=20", *QUICK)
    assert result.status == 0, result.out
    (found,) = session.benchmarks().values()
    assert 1 / 3 < found["stats"]["min"] / found["extra_info"]["independent"] < 3


def test_the_first_call_is_apart(session):
    text = """
import time, numpy

calls = []

def slow_at_first():
    calls.append(1)
    time.sleep(0.5 if len(calls) == 1 else 0)
    return numpy.ones(1)

def test_it(metalbench):
    metalbench.function(slow_at_first, backend="numpy-cpu")
"""
    assert session(text, *QUICK).status == 0
    (found,) = session.benchmarks().values()
    assert found["extra_info"]["first_call_ns"] >= 0.5e9
    assert found["stats"]["max"] < 0.25


def test_disabled_a_function_is_called_once_and_a_workload_is_still_checked(session):
    text = """
import numpy

calls = []

def test_once(metalbench):
    assert metalbench.function(lambda: calls.append(1) or numpy.ones(1)) == 1
    assert calls == [1]

def test_right(metalbench):
    metalbench("faults", backend="numpy-cpu")

def test_wrong(metalbench):
    metalbench("faults", backend="numpy-cpu", case={"fault": "wrong"})
"""
    result = session(text, "--benchmark-disable")
    assert result.counts == {"passed": 2, "failed": 1}, result.out
    assert "is wrong" in result.out
    assert "Rounds" not in result.out


def test_pytest_benchmark_knows_which_tests_are_benchmarks(session):
    text = """
def test_steady(metalbench):
    metalbench("steady", backend="numpy-cpu")

def test_other():
    pass
"""
    only, without = session(text, "--benchmark-only", *QUICK), session(text, "--benchmark-skip")
    assert only.counts == without.counts == {"passed": 1, "skipped": 1}
    assert list(session.benchmarks()) == ["test_steady"]


def test_a_session_that_does_not_use_it_imports_nothing_for_it(session):
    text = """
import sys

def test_nothing():
    ours = {name for name in sys.modules if name.partition(".")[0] in {"metalbench", "numpy", "msgspec"}}
    assert ours == {"metalbench", "metalbench.harness", "metalbench.harness.pytest_plugin"}
"""
    result = session(text, "-Werror")
    assert result.counts == {"passed": 1}, result.out


def test_without_pytest_benchmark_it_says_what_to_install(session):
    text = """
def test_steady(metalbench):
    metalbench("steady", backend="numpy-cpu")

def test_other():
    pass
"""
    result = session(text, "-Werror", plugins=["metalbench.harness.pytest_plugin"])
    assert result.counts == {"passed": 1, "error": 1}
    assert "The fixture metalbench needs pytest-benchmark: pip install 'metalbench[pytest]'." in result.out


def test_the_document_s_example(session):
    result = session(EXAMPLE, *QUICK)
    assert set(result.counts) <= {"passed", "skipped"}, result.out
    installed = [name for name in ("torch", "jax", "mlx") if importlib.util.find_spec(name)]
    found = session.benchmarks()
    for name in installed:
        assert found[f"test_training_step[{name}-cpu]"]["extra_info"]["figures"]["skipped_steps"] == 0
    assert found.keys() >= {f"test_attention[{name}-cpu]" for name in installed}
    assert "benchmark 'attention 1×4×64×64 causal float32': 3 tests" in result.out or len(installed) < 3


def array(module, *device):
    return type("Array", (), {"__module__": module, **({"device": device[0]} if device else {})})()


@pytest.mark.parametrize(
    ("returned", "linux", "darwin"),
    [
        (array("torch", "cpu"), ["torch-cpu"], ["torch-cpu"]),
        ((array("torch", "cpu"), {"out": [array("torch", "cuda:0")]}), ["torch-cuda"], ["torch-mps"]),
        (array("jaxlib._jax", "METAL:0"), ["jax-cuda"], ["jax-metal"]),
        (array("tensorflow.python.framework.ops", "/job:localhost/replica:0/task:0/device:GPU:0"), ["tf-cuda"], ["tf-metal"]),
        (array("mlx.core"), ["mlx-cuda", "mlx-cpu"], ["mlx-metal", "mlx-cpu"]),
    ],
)
def test_arrays_tell_the_backend_to_wait_for(monkeypatch, returned, linux, darwin):
    """An array on an accelerator outweighs those on the CPU, which may not need to be waited for."""
    for platform, expected in [("linux", linux), ("darwin", darwin)]:
        monkeypatch.setattr(sys, "platform", platform)
        assert owners(returned, CATALOG.frameworks.values()) == expected


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_arrays_as_the_frameworks_make_them_are_known(framework):
    device, known = open_device(framework), CATALOG.frameworks
    own = device.put(np.ones(3, np.float32))
    assert f"{known[framework].prefix}-cpu" in owners({"out": [own, 1.0]}, known.values())
    with pytest.raises(UsageError, match=r"numpy\.ndarray"):
        owners((own, np.ones(3)), known.values())
