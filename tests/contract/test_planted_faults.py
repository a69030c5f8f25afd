"""Work that is wrong in the ways that benchmarks get wrong is caught, on every backend."""

import importlib

import numpy as np
import pytest
from support.cases import CATALOG, FRAMEWORKS, TELLING, data, open_device, roofline, verdict

from metalbench.workloads.base import rounded


def in_dtype(workload, dtype):
    return next(case for case in TELLING[workload] if case.dtype == dtype)


def as_dtype(case, dtype):
    return type(case)(**{**case.parameters(), "dtype": dtype})


@pytest.mark.parametrize("variant", ["composed", "fused"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_without_its_causal_mask(framework, variant, dtype):
    case = in_dtype("attention", dtype)
    unmasked = type(case)(**{**case.parameters(), "causal": False})
    assert not verdict(framework, "attention", case, variant, built_as=unmasked).ok


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_attention_aligned_at_the_upper_left(framework):
    """What a framework's own default would be: query i sees keys up to i."""
    case = in_dtype("attention", "float32")
    inputs, _ = data("attention", case)
    hidden = np.arange(case.keys)[None, None, :, None] >= case.queries
    seen = {**inputs, "k": np.where(hidden, inputs["k"] * 0 - 30, inputs["k"]).astype(np.float32)}
    assert not verdict(framework, "attention", case, "composed", inputs=seen).ok


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("workload", "name"), [("attention", "v"), ("fft", "x"), ("int4_matmul", "x"), ("amp_step", "x"), ("roofline", "a")]
)
def test_a_nan_never_passes(framework, workload, name):
    open_device(framework)
    case = TELLING[workload][0]
    inputs, _ = data(workload, case)
    poisoned = inputs[name].copy()
    poisoned.reshape(-1)[7] = np.nan
    variant = CATALOG.implementation(framework, workload).default
    check = verdict(framework, workload, case, variant, inputs={**inputs, name: poisoned})
    assert not check.ok
    assert check.detail


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("workload", "variant"), [("attention", "composed"), ("int4_matmul", "dense"), ("amp_step", "eager"), ("roofline", "native")]
)
def test_float16_arithmetic_where_float32_is_declared(framework, workload, variant):
    case = in_dtype(workload, "float32")
    assert not verdict(framework, workload, case, variant, built_as=as_dtype(case, "float16")).ok


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_transform_of_inputs_rounded_to_float16(framework):
    """No framework has a float16 FFT to plant on the CPU; the least that one would lose is the rounding of its inputs."""
    case = next(case for case in TELLING["fft"] if case.kind == "real")
    inputs, _ = data("fft", case)
    assert not verdict(framework, "fft", case, "native", inputs={"x": rounded(inputs["x"], "float16")}).ok


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_copy_through_16_bit(framework):
    case = roofline("copy", "float32", 256)
    assert not verdict(framework, "roofline", case, "native", built_as=as_dtype(case, "float16")).ok


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_groups_of_4_bit_weights_shifted_by_one(framework):
    open_device(framework)
    case = in_dtype("int4_matmul", "float32")
    inputs, _ = data("int4_matmul", case)
    shifted = {**inputs, "scales": np.roll(inputs["scales"], 1, axis=1), "offsets": np.roll(inputs["offsets"], 1, axis=1)}
    variant = CATALOG.implementation(framework, "int4_matmul").default
    assert not verdict(framework, "int4_matmul", case, variant, inputs=shifted).ok


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_optimizer_that_applies_only_weight_decay(framework, dtype, monkeypatch):
    open_device(framework)
    adapter = importlib.import_module(f"metalbench.backends.{framework}.amp_step")
    decay = adapter.LEARNING_RATE * adapter.WEIGHT_DECAY
    monkeypatch.setattr(adapter, "LEARNING_RATE", 1e-15)
    monkeypatch.setattr(adapter, "WEIGHT_DECAY", decay / 1e-15)
    check = verdict(framework, "amp_step", in_dtype("amp_step", dtype), "eager")
    assert not check.ok
    assert check.figures["lowest_cosine"] < 0.5  # not only the losses tell


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_master_weights_that_are_not_float32(framework):
    """The trajectory may pass in 16 bit; that its weights are kept in 16 bit may not."""
    case = in_dtype("amp_step", "bfloat16")
    own, (inputs, reference) = CATALOG.workload("amp_step"), data("amp_step", case)
    device = open_device(framework)
    step = CATALOG.implementation(framework, "amp_step").variants["eager"](device, case, inputs)
    outputs = []
    for _ in range(own.checked_calls):
        out = step()
        device.wait(out)
        outputs.append({name: rounded(np.array(device.get(array)), "bfloat16") for name, array in out.items()})
    check = own.check(case, inputs, outputs, reference)
    assert not check.ok
