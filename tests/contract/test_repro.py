"""Every variant of every workload in every framework becomes a script that does the same work without this package."""

import gc
import os
import re
import runpy

import numpy as np
import pytest
from support.cases import ACCELERATOR, CATALOG, FRAMEWORKS, SLOW_TO_BUILD, TELLING, open_device, verdict
from support.scripts import cell_of, run_alone, script_of

from metalbench.backends.base import StatefulStep
from metalbench.harness.errors import UsageError

BACKENDS = {
    framework: next(f"{own.prefix}-{kind}" for kind, device in own.devices.items() if device.accelerator == ACCELERATOR)
    for framework, own in CATALOG.frameworks.items()
    if framework in FRAMEWORKS
}
CELLS = [
    pytest.param(framework, workload, variant, id=f"{framework}-{workload}-{variant}")
    for framework in FRAMEWORKS
    for workload in TELLING
    for variant in CATALOG.workload(workload).variants
    if variant != "kernel"
]


@pytest.fixture
def aside():
    """What a script changes in the process it runs in is put back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", os.environ.copy())
        yield
    gc.enable()


def written(framework, workload, case, variant, protocol="latency"):
    return script_of(CATALOG, cell_of(CATALOG, BACKENDS[framework], workload, case, variant, protocol))


def tried(function, *arguments):
    """(what it gives, the words in which it refuses)."""
    try:
        return function(*arguments), ""
    except Exception as error:  # noqa: BLE001 - whatever a framework raises
        return None, f"{type(error).__name__}: {error}"


def is_alone(text):
    compile(text, "repro.py", "exec")
    return not re.search("metalbench|msgspec", text, re.IGNORECASE)


@pytest.mark.parametrize(("framework", "workload", "variant"), CELLS)
def test_a_script_is_whole_and_does_not_know_us(framework, workload, variant):
    assert is_alone(written(framework, workload, TELLING[workload][0], variant))


@pytest.mark.parametrize("workload", ["custom_op", "int4_matmul"])
@pytest.mark.parametrize("framework", ["torch", "jax", "mlx"])
def test_a_hand_written_kernel_is_not_cut_out(framework, workload):
    with pytest.raises(UsageError, match="give the folder in kernels/"):
        written(framework, workload, TELLING[workload][0], "kernel")


@pytest.mark.parametrize("protocol", ["throughput", "latency-cold", "throughput-cold"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_script_takes_its_samples_as_the_record_did(framework, protocol):
    text = written(framework, "roofline", TELLING["roofline"][0], "native", protocol)
    assert is_alone(text)
    assert f"work = {protocol.removesuffix('-cold')}(device, step)" in text
    assert ("before()\n    begin = " in text) == (protocol == "latency-cold")
    assert ("step = rotation(" in text) == (protocol == "throughput-cold")


@pytest.mark.parametrize(("framework", "workload", "variant"), [cell for cell in CELLS if cell.values[2] not in SLOW_TO_BUILD])
def test_a_script_computes_what_the_cell_does(framework, workload, variant, tmp_path, aside, capsys):
    device, own, case = open_device(framework), CATALOG.workload(workload), TELLING[workload][0]
    file = tmp_path / "repro.py"
    file.write_text(written(framework, workload, case, variant), "utf-8")
    expected, refused = tried(verdict, framework, workload, case, variant)
    left, refusal = tried(runpy.run_path, str(file))
    assert refused == refusal
    if refusal:
        return
    step, found = left["step"], []
    if isinstance(step, StatefulStep):
        step.reset()
    for _ in range(own.calls_checked(case)):
        outputs = step()
        left["device"].wait(outputs)
        found.append({name: np.array(device.get(array)) for name, array in outputs.items()})
    inputs = own.inputs(case, np.random.default_rng(0))
    check = own.check(case, inputs, found, own.reference(case, inputs))
    assert check.ok == expected.ok, check
    assert check.ok or ACCELERATOR
    assert "a call (quartiles" in capsys.readouterr().out


@pytest.mark.skipif(bool(ACCELERATOR), reason="for one framework on the CPU")
def test_a_script_trains_as_the_cell_does(tmp_path, aside, capsys):
    device, own, case = open_device("torch"), CATALOG.workload("amp_step"), TELLING["amp_step"][0]
    file = tmp_path / "repro.py"
    file.write_text(written("torch", "amp_step", case, "eager", "throughput"), "utf-8")
    step = runpy.run_path(str(file))["step"]
    step.reset()
    trajectory = [{name: np.array(device.get(array)) for name, array in step().items()} for _ in range(own.calls_checked(case))]
    inputs = own.inputs(case, np.random.default_rng(0))
    check = own.check(case, inputs, trajectory, own.reference(case, inputs))
    assert check.ok, check


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_script_runs_alone(framework, tmp_path):
    facts = open_device(framework).facts()
    answer = run_alone(written(framework, "fft", TELLING["fft"][0], "native"), tmp_path)
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert f"{next(iter(facts))} {next(iter(facts.values()))}" in lines  # the framework's version
    assert [line.split()[0] for line in lines[-3:]] == ["first", "median", "recorded"]
