"""The transform as a product: its matrix, and what is due from it."""

import cmath
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import CATALOG, fft

from metalbench.workloads.fft import dft_matrix


@given(st.integers(2, 64), st.data())
def test_the_matrix_of_a_transform_by_its_definition(length, data):
    j, k = (data.draw(st.integers(0, length - 1)) for _ in range(2))
    assert dft_matrix(length)[j, k] == pytest.approx(cmath.exp(-2j * math.pi * j * k / length), abs=1e-6)


def test_a_long_matrix_is_as_exact_as_a_short_one():
    """jk is in the tens of millions there: it wouldn't fit into 16 bit, and of the angle float32 would keep two digits."""
    last = dft_matrix(8191)[-1]
    exact = np.exp(2j * np.pi * np.arange(8191) / 8191)  # (N − 1)k ≡ −k
    assert np.abs(last - exact).max() < 2.0**-23


def test_a_transform_as_a_product_has_the_tolerance_of_a_sum_and_its_matrix_in_memory():
    workload, case = CATALOG.workload("fft"), fft("complex", 1, 4096, "forward")
    inputs = workload.inputs(case, np.random.default_rng(0))
    reference = workload.reference(case, inputs)
    off = (reference["out"] * (1 + 1e-5)).astype(np.complex64)
    as_product, as_transform = (workload.check(case, inputs, [{name: off}], reference) for name in ("naive", "out"))
    assert as_product.ok
    assert not as_transform.ok
    assert as_product.tolerance == pytest.approx((2 + 4 * 4096**0.5) * 2.0**-23)
    assert not workload.check(case, inputs, [{"naive": off * 1.001}], reference).ok
    native, naive = (workload.cost(case, variant) for variant in ("native", "naive"))
    assert naive.footprint - native.footprint == dft_matrix(4096).nbytes
    assert (naive.flops, naive.bytes) == (native.flops, native.bytes)
