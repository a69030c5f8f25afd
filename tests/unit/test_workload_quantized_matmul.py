"""Codes, scales and tables against truth found another way, and what the documents say of them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import CATALOG, DTYPES, quantized

from metalbench.workloads.base import rounded
from metalbench.workloads.quantized_matmul import SIGNIFICAND, nearest_levels, quantize_bytes

WORKLOAD = CATALOG.workload("quantized_matmul")


def deviation(values, levels):
    return float((np.abs(values[:, None] - levels).min(1) ** 2).sum())


def quantization_error(scheme, group, weights, dtype="float16"):
    case = quantized(dtype, scheme, group, weights)
    inputs = WORKLOAD.inputs(case, np.random.default_rng(0))
    reference = WORKLOAD.reference(case, inputs)
    return WORKLOAD.check(case, inputs, [{"out": reference["out"]}], reference).figures["quantization_error"]


@given(st.lists(st.floats(-100, 100), min_size=4, max_size=9, unique_by=lambda value: round(value, 3)), st.integers(2, 4))
@settings(max_examples=60)
def test_levels_are_the_best_of_all_partitions(values, levels):
    ordered = np.sort(np.array(values))
    ends = itertools.combinations(range(1, len(values)), levels - 1)
    best = min(sum(float(((run - run.mean()) ** 2).sum()) for run in np.split(ordered, end)) for end in ends)
    found = deviation(ordered, nearest_levels(np.array(values), levels))
    assert found == pytest.approx(best, rel=1e-6, abs=1e-9)


def test_levels_stand_where_the_clusters_are():
    """Of very different sizes, which a start at quantiles would miss."""
    rng, centres = np.random.default_rng(0), np.sort(np.random.default_rng(1).uniform(-1, 1, 16))
    values = np.repeat(centres, rng.integers(20, 4000, 16))
    values = rng.permutation(values + 1e-4 * rng.standard_normal(values.size))
    np.testing.assert_allclose(nearest_levels(values, 16), centres, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("scheme", "group"), [("int8", 128), ("int4", 64), ("lookup4", 16)])
@pytest.mark.parametrize("weights", ["even", "clustered"])
def test_an_output_by_its_definition_from_numbers_that_the_dtype_holds(dtype, scheme, group, weights):
    case = quantized(dtype, scheme, group, weights)
    inputs = WORKLOAD.inputs(case, np.random.default_rng(5))
    row, column = 3, 41
    codes = [int(code) for code in inputs["codes"][column]]
    if scheme == "lookup4":
        used = [float(inputs["tables"][column // group, code]) for code in codes]
    else:
        scales = [float(scale) for scale in inputs["scales"][column] for _ in range(group)]
        offsets = [float(offset) for offset in inputs["offsets"][column] for _ in range(group)] if scheme == "int4" else [0.0] * case.k
        used = [code * scale + offset for code, scale, offset in zip(codes, scales, offsets, strict=True)]
        on_the_way = [code * scale for code, scale in zip(codes, scales, strict=True)]
        on_the_way += [(code + 128) * scale for code, scale in zip(codes, scales, strict=True)] if scheme == "int8" else offsets
        assert all(float(rounded(np.float32(value), dtype)) == value for value in on_the_way)
    assert all(float(rounded(np.float32(value), dtype)) == value for value in used)
    expected = math.fsum(float(x) * weight for x, weight in zip(inputs["x"][row], used, strict=True))
    assert WORKLOAD.reference(case, inputs)["out"][row, column] == pytest.approx(expected, rel=1e-12)
    assert (
        np.abs(np.array(used) - inputs["weights"][column]).max()
        < {"int8": 0.01, "int4": 0.1, "lookup4": 0.1}[scheme] / math.sqrt(case.k) * 4
    )


@given(seed=st.integers(0, 1000), group=st.sampled_from([32, 128, 256]), dtype=st.sampled_from(DTYPES))
@settings(max_examples=50)
def test_bytes_are_near_and_their_scales_no_larger_than_need_be(seed, group, dtype):
    weights, bits = np.random.default_rng(seed).standard_normal((4, 256)).astype(np.float32), max(SIGNIFICAND[dtype] - 8, 1)
    codes, scales = quantize_bytes(weights, group, bits)
    assert codes.min() >= -127  # symmetric
    each = np.repeat(scales, group, axis=1).astype(np.float64)
    assert np.all(np.abs(codes * each - weights) <= each / 2)
    least = np.abs(weights).reshape(4, -1, group).max(-1) / 127
    assert np.all((scales >= least * (1 - 1e-6)) & (scales <= least * (1 + 2.0 ** (1 - bits)) * (1 + 1e-6)))


def test_even_weights_are_even_and_clustered_ones_stand_apart():
    """By the share of a fine histogram's bins between the ends that hold anything."""
    filled = {}
    for weights in ("even", "clustered"):
        values = WORKLOAD.inputs(quantized("float32", "int8", 128, weights), np.random.default_rng(0))["weights"]
        assert float(values.std()) * 32 == pytest.approx(1, rel=0.1)  # 1 / √k
        filled[weights] = float((np.histogram(values, 256)[0] > values.size / 256 / 4).mean())
    assert filled["even"] > 0.99
    assert filled["clustered"] < 0.75


def test_a_table_beats_a_scale_on_clustered_weights_and_hardly_on_even_ones():
    """On even ones 16 steps are better than 15 by no more than they are more."""
    linear, table = (
        {spread: quantization_error(scheme, group, spread) for spread in ("even", "clustered")}
        for scheme, group in (("int4", 128), ("lookup4", 16))
    )
    assert linear["clustered"] / table["clustered"] > 1.5
    assert linear["even"] / table["even"] == pytest.approx(16 / 15, rel=0.05)
    assert quantization_error("int8", 128, "even") < linear["even"] / 10


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_call_moves_what_is_stored(dtype):
    """The arrays as made, at the size of the dtype; two 4-bit codes are a byte."""
    itemsize = {"float32": 4, "float16": 2, "bfloat16": 2}[dtype]
    for scheme, group in (("int8", 128), ("int4", 64), ("lookup4", 16)):
        case = quantized(dtype, scheme, group)
        inputs = WORKLOAD.inputs(case, np.random.default_rng(0))
        codes = inputs["codes"].size // (1 if scheme == "int8" else 2)
        shared = sum(inputs[name].size for name in ("scales", "offsets", "tables") if name in inputs)
        ends = inputs["x"].size + 16 * 64
        assert WORKLOAD.cost(case, "dequantize").bytes == codes + itemsize * (shared + ends)
        assert WORKLOAD.cost(case, "dense").bytes == itemsize * (inputs["weights"].size + ends)
