"""The whole matrix: each operator × framework × dtype is right, is wrong in a way that is written down here, or says why not."""

import importlib

import numpy as np
import pytest
from support.cases import ACCELERATOR, CATALOG, DTYPES, FRAMEWORKS, open_device, operator, verdict

from metalbench.backends.base import Unsupported
from metalbench.workloads.operators import judgements

LOW = ("float16", "bfloat16")
LINALG = {"triangular_solve", "cholesky", "inverse"}
#: Operators for which a framework has neither a function nor a layer.
LACKING = {
    "torch": set(),
    "jax": {
        "softshrink",
        "linear",
        "avg_pool2d",
        "grid_sample",
        "layer_norm",
        "group_norm",
        "batch_norm",
        "cross_entropy",
        "mse_loss",
    },
    "mlx": {"signbit", "one_hot", "histogram", "grid_sample"},
    "tensorflow": {"grid_sample"},
}
#: What the CPU's kernels refuse besides, by dtype. MLX derives none of its linear algebra.
REFUSED = {
    "torch": dict.fromkeys(LOW, LINALG),
    "jax": dict.fromkeys(LOW, LINALG - {"triangular_solve"}),
    "mlx": dict.fromkeys(DTYPES, LINALG),
    "tensorflow": {"float16": {"triangular_solve", "cholesky", "histogram"}, "bfloat16": LINALG | {"histogram"}},
}
#: Defects on the CPU, named in the README. Histograms count in the dtype, in which 256 + 1 is 256 (bfloat16), or find bins in it (float16);
#: cumulative sums are rounded at every step.
WRONG = {
    "torch": {"float16": {"histogram"}, "bfloat16": {"histogram"}},
    "jax": {"bfloat16": {"histogram"}},
    "mlx": {dtype: {"cumsum"} for dtype in LOW},
    "tensorflow": {dtype: {"cumsum"} for dtype in LOW},
}
#: Sums of a gradient that 16 bit rounds on the way, two to five times what is due, by how many depending on the processor: some pass.
#: PyTorch's logsumexp is derived from its rounded result.
ROUGH = {
    "torch": {"layer_norm", "logsumexp"},
    "jax": set(),
    "mlx": set(),
    "tensorflow": {"conv1d", "conv2d", "conv_transpose2d", "batch_norm", "linear"},
}


def answer(framework, case):
    """(status, reason)."""
    try:
        check = verdict(framework, "operators", case, "native")
    except Exception as error:  # noqa: BLE001 - whatever a framework raises
        return "unsupported" if isinstance(error, Unsupported) else open_device(framework).diagnose(error), str(error)
    return "ok" if check.ok else "wrong", check.detail


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_matrix_has_no_empty_entry(framework, dtype):
    open_device(framework)
    names = [name for name, judged in judgements().items() if dtype in judged.dtypes]
    answers = {name: answer(framework, operator(name, dtype)) for name in names}
    assert all(reason for status, reason in answers.values() if status != "ok")
    for name in LACKING[framework] & set(names):
        assert answers[name][0] == "unsupported"
        assert f"no public function for {name}: " in answers[name][1]
    if ACCELERATOR:  # what it can't do or does wrongly is not written down here, but must be said
        assert "failed" not in {status for status, _ in answers.values()}, answers
        return
    unlike = {
        "unsupported": LACKING[framework] | REFUSED[framework].get(dtype, set()),
        "wrong": WRONG[framework].get(dtype, set()),
    }
    expected = {name: next((status for status, group in unlike.items() if name in group), "ok") for name in names}
    rough = ROUGH[framework] if dtype != "float32" else set()
    found = {name: "ok" if name in rough and status == "wrong" else status for name, (status, _) in answers.items()}
    differences = {name: (expected[name], *answers[name]) for name in names if found[name] != expected[name]}
    assert not differences, "what a framework has mended is taken off the lists here and out of the README"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_has_each_operator_of_the_list_or_a_reason(framework):
    open_device(framework)
    module = importlib.import_module(f"metalbench.backends.{framework}.operators")
    tables = [set(getattr(module, name, {})) for name in ("OPERATORS", "LAYERS", "LACKING")]
    assert sum(map(len, tables)) == len(set().union(*tables))
    assert set().union(*tables) == set(judgements())


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv_transpose2d", "linear", "group_norm"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_comes_back_has_the_shapes_of_what_was_given(framework, name):
    """Whatever order of axes the framework wants."""
    device, case = open_device(framework), operator(name, "float32")
    inputs = CATALOG.workload("operators").inputs(case, np.random.default_rng(0))
    try:
        out = CATALOG.implementation(framework, "operators").variants["native"](device, case, inputs)()
    except Unsupported:
        assert name in LACKING[framework]
        return
    device.wait(out)
    shapes = {name: np.shape(device.get(array)) for name, array in out.items()}
    derived = {f"gradient.{key}": array.shape for key, array in inputs.items() if key != "cotangent"}
    assert shapes == {"out": inputs["cotangent"].shape, **derived}


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_a_bit_that_only_tells_zeros_apart_is_read(framework):
    """A comparison with 0 would be the cheaper answer, and wrong of −0."""
    device, case = open_device(framework), operator("signbit", "float32")
    step = CATALOG.implementation(framework, "operators").variants["native"](
        device, case, {"x": np.array([-0.0, 0.0, -1.0, 1.0], np.float32)}
    )
    assert np.array(device.get(step()["out"])).tolist() == [True, False, True, False]
