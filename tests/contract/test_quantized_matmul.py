"""What quantized weights take as each framework stores them, looked at in memory where it can be; and what it says where it has no way."""

import ctypes

import numpy as np
import pytest
from support.cases import ACCELERATOR, CATALOG, FRAMEWORKS, data, open_device, quantized, verdict

from metalbench.backends.base import TellingStep, Unsupported

WEIGHTS = 64 * 1024


def built(framework, case, variant):
    device = open_device(framework)
    return CATALOG.implementation(framework, "quantized_matmul").variants[variant](device, case, data("quantized_matmul", case)[0])


def told(framework, case, variant):
    step = built(framework, case, variant)
    assert isinstance(step, TellingStep)
    return step.figures["weight_bytes"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_bytes_halve_twice_and_scales_and_tables_count(framework):
    dense = told(framework, quantized("float16", "int8", 128), "dense")
    int8, int4, lookup = (
        told(framework, quantized("float16", scheme, group), "dequantize")
        for scheme, group in (("int8", 128), ("int4", 128), ("lookup4", 16))
    )
    assert dense == 2 * WEIGHTS
    offsets = 2 if framework == "mlx" else 1  # which MLX has beside every scale
    assert int8 == WEIGHTS + 2 * offsets * WEIGHTS / 128
    assert int4 == WEIGHTS / 2 + 2 * 2 * WEIGHTS / 128
    assert lookup == WEIGHTS / 2 + 2 * 16 * 64 / 16
    assert min(dense / int8, int8 / int4) > 1.9


@pytest.mark.parametrize(
    ("framework", "scheme", "group"), [("torch", "int8", 1024), ("torch", "int4", 128), ("mlx", "int8", 128), ("mlx", "int4", 64)]
)
def test_an_operators_own_packing_takes_no_more_than_bytes_packed_by_hand(framework, scheme, group):
    case = quantized("bfloat16", scheme, group)
    assert told(framework, case, "native") == told(framework, case, "dequantize")


@pytest.mark.parametrize("variant", ["native", "dense"])
def test_mlx_holds_as_many_bytes_as_it_tells(variant):
    """By its own counter, which counts x too."""
    device = open_device("mlx")
    import mlx.core as mx

    case = quantized("bfloat16", "int8", 1024)
    inputs = data("quantized_matmul", case)[0]
    device.release()
    before = mx.get_active_memory()
    step = CATALOG.implementation("mlx", "quantized_matmul").variants[variant](device, case, inputs)
    assert step.figures["weight_bytes"] == mx.get_active_memory() - before - 2 * 16 * 1024


@pytest.mark.skipif(bool(ACCELERATOR), reason="only the CPU's memory can be read like that")
def test_what_an_array_of_jaxs_uint4_takes_is_looked_up_not_believed():
    """``nbytes`` says a byte a code; that memory holds two a byte where the adapter tells so."""
    device, case = open_device("jax"), quantized("float16", "int4", 128)
    codes = data("quantized_matmul", case)[0]["codes"]
    array = device.put(codes, "uint4")
    memory = np.frombuffer(ctypes.string_at(array.unsafe_buffer_pointer(), WEIGHTS // 2), np.uint8)
    low, high = memory & 15, memory >> 4  # the first of two is the high one in JAX 0.5, since then the low one
    packed = any(np.array_equal(np.stack(pair, -1).reshape(codes.shape), codes) for pair in ((low, high), (high, low)))
    assert array.nbytes == WEIGHTS
    assert told("jax", case, "uint4") == (WEIGHTS / 2 if packed else WEIGHTS) + 2 * 2 * WEIGHTS / 128


def test_tensorflow_stores_its_uint4_in_a_byte_each():
    case = quantized("float16", "int4", 128)
    assert told("tensorflow", case, "uint4") == told("tensorflow", case, "dequantize") + WEIGHTS / 2


def test_why_tensorflows_uint4_is_not_compiled():
    """XLA takes the bytes for packed ones: 0, 0, 1, 0, 2, 0 … Where it is mended, the adapter may compile."""
    open_device("tensorflow")
    import tensorflow as tf

    codes = tf.cast(tf.range(16), tf.dtypes.experimental.uint4)
    found = tf.function(lambda codes: tf.cast(codes, tf.uint8), jit_compile=True, autograph=False)(codes)
    assert not np.array_equal(found, np.arange(16))


def test_pytorchs_uint4_is_a_name_only():
    """Where it is more, the adapter needs a variant."""
    open_device("torch")
    import torch

    with pytest.raises(NotImplementedError, match=r"\"copy_\" not implemented for 'UInt4'"):
        torch.arange(16, dtype=torch.uint8).to(torch.uint4)


def test_pytorchs_product_by_bytes_has_one_scale_a_row():
    with pytest.raises(Unsupported, match="one scale a row, not one for 128 weights of 1024"):
        built("torch", quantized("float32", "int8", 128), "native")


@pytest.mark.parametrize("variant", ["native", "dequantize"])
def test_a_group_of_mlxs_own_length_is_right_too(variant):
    check = verdict("mlx", "quantized_matmul", quantized("float32", "int8", 128), variant)
    assert check.ok, check
