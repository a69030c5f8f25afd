"""Work that is wrong in the ways that benchmarks get wrong is caught, on every backend."""

import importlib

import numpy as np
import pytest
from support.cases import CATALOG, FRAMEWORKS, TELLING, data, open_device, roofline, verdict

from metalbench.workloads.base import rounded
from metalbench.workloads.fft import dft_matrix


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
    ("workload", "name"),
    [
        ("attention", "v"),
        ("fft", "x"),
        ("int4_matmul", "x"),
        ("quantized_matmul", "x"),
        ("amp_step", "x"),
        ("transformer_block", "x"),
        ("roofline", "a"),
        ("custom_op", "x"),
        ("dispatch", "x"),
        ("transfer", "x"),
        ("operators", "x"),
        ("kv_cache", "x"),
        ("lora_step", "embedding"),
    ],
)
def test_a_nan_never_passes(framework, workload, name):
    open_device(framework)
    case = TELLING[workload][0]
    inputs, _ = data(workload, case)
    poisoned = inputs[name].copy()
    poisoned.reshape(-1)[np.abs(poisoned).argmax()] = np.nan  # a small one may be taken for 0: a comparison with NaN is false
    variant = CATALOG.implementation(framework, workload).default
    check = verdict(framework, workload, case, variant, inputs={**inputs, name: poisoned})
    assert not check.ok
    assert check.detail


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("workload", "variant"),
    [
        ("attention", "composed"),
        ("int4_matmul", "dense"),
        ("quantized_matmul", "dense"),
        ("amp_step", "eager"),
        ("transformer_block", "eager"),
        ("kv_cache", "in_place"),
        ("roofline", "native"),
        ("custom_op", "composed"),
        ("dispatch", "native"),
        ("operators", "native"),
    ],
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


def with_angles_in_float32(length):
    at = np.arange(length, dtype=np.float32)
    return np.exp(1j * (np.outer(at, at) * np.float32(-2 * np.pi / length))).astype(np.complex64)


def of_the_inverse(length):
    return dft_matrix(length).conj()


@pytest.mark.parametrize("matrix", [with_angles_in_float32, of_the_inverse])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_product_with_a_matrix_that_is_not_the_transforms(framework, matrix, monkeypatch):
    open_device(framework)
    monkeypatch.setattr(importlib.import_module(f"metalbench.backends.{framework}.fft"), "dft_matrix", matrix)
    assert not verdict(framework, "fft", TELLING["fft"][0], "naive").ok


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_softshrink_with_another_threshold(framework, dtype, monkeypatch):
    device, case = open_device(framework), in_dtype("custom_op", dtype)
    variants = ("composed", CATALOG.implementation(framework, "custom_op").default)
    device.release()  # JAX keeps what it traced, with the threshold that it saw
    with monkeypatch.context() as patch:
        patch.setattr(importlib.import_module(f"metalbench.backends.{framework}.custom_op"), "LAMBDA", 0.45)
        found = [verdict(framework, "custom_op", case, variant).ok for variant in variants]
    device.release()
    assert found == [False, False]


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


@pytest.mark.parametrize(
    ("scheme", "name", "fault"),
    [
        ("int8", "codes", lambda codes: codes ^ -128),  # the offset of unsigned bytes is forgotten
        ("int4", "codes", lambda codes: codes.reshape(-1, 2)[:, ::-1].reshape(codes.shape)),  # the even one in the high half
        ("lookup4", "codes", lambda codes: codes.reshape(-1, 2)[:, ::-1].reshape(codes.shape)),
        ("lookup4", "tables", lambda tables: np.roll(tables, 1, axis=0)),  # those of other rows
    ],
)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_quantized_weights_that_are_not_read_as_they_are_stored(framework, scheme, name, fault):
    open_device(framework)
    case = next(case for case in TELLING["quantized_matmul"] if case.scheme == scheme)
    inputs, _ = data("quantized_matmul", case)
    misread = {**inputs, name: np.ascontiguousarray(fault(inputs[name]))}
    check = verdict(framework, "quantized_matmul", case, "dequantize", inputs=misread)
    assert not check.ok
    assert check.figures["quantization_error"] < 0.1  # that of the right weights: it is no figure of what was computed


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
    for _ in range(own.calls_checked(case)):
        out = step()
        device.wait(out)
        outputs.append({name: rounded(np.array(device.get(array)), "bfloat16") for name, array in out.items()})
    check = own.check(case, inputs, outputs, reference)
    assert not check.ok


def with_neighbours_turned(case, inputs):
    """Each head's even elements before its odd ones, so that its halves are what were neighbours."""
    order = np.arange(case.head_size).reshape(-1, 2).T.reshape(-1)
    heads = {name: inputs[name].reshape(-1, case.head_size, case.width)[:, order].reshape(inputs[name].shape) for name in "qk"}
    return inputs | heads | {"k_cache": inputs["k_cache"][..., order]}


def with_positions_from_zero(case, inputs):
    """Cached keys turned as far as the queries should have been."""
    angles = case.context * 10000.0 ** (-np.arange(0, case.head_size, 2) / case.head_size)
    pairs = inputs["k_cache"][..., : case.head_size // 2] + 1j * inputs["k_cache"][..., case.head_size // 2 :]
    turned = pairs * np.exp(1j * angles)
    return inputs | {"k_cache": np.concatenate((turned.real, turned.imag), -1).astype(np.float32)}


def without_the_new_values(case, inputs):
    return inputs | {"v": np.zeros_like(inputs["v"])}


@pytest.mark.parametrize(
    ("dtype", "fault"),
    [
        ("float32", with_neighbours_turned),
        *(("bfloat16", fault) for fault in (with_neighbours_turned, with_positions_from_zero, without_the_new_values)),
    ],
)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_block_that_turns_or_caches_wrongly(framework, dtype, fault):
    open_device(framework)
    case = in_dtype("transformer_block", dtype)
    inputs, _ = data("transformer_block", case)
    assert not verdict(framework, "transformer_block", case, "eager", inputs=fault(case, inputs)).ok
