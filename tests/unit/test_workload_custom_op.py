"""Softshrink against truth found another way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import CATALOG, custom_op


def softshrink(value):
    """The proximal operator of λ|y|: where y ↦ ½(y − x)² + λ|y| has its minimum; at the kink, or where the derivative is 0."""
    return min((0.0, value - 0.5, value + 0.5), key=lambda y: 0.5 * (y - value) ** 2 + 0.5 * abs(y))


@given(st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=8))
def test_softshrink_by_what_it_minimises(values):
    x = np.array([*values, 0.5, -0.5, 0.0], np.float32)
    found = CATALOG.workload("custom_op").reference(custom_op("float32", x.size), {"x": x})["out"]
    assert found == pytest.approx([softshrink(float(value)) for value in x], abs=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_large_softshrink_is_sampled_and_its_last_element_looked_at(dtype):
    workload, case = CATALOG.workload("custom_op"), custom_op(dtype, (1 << 20) + 1)
    inputs = workload.inputs(case, np.random.default_rng(0))
    inputs["x"][-1] = 3.0
    reference = workload.reference(case, inputs)
    assert reference["out.at"].size < 1 << 17
    x = inputs["x"]
    out = np.copysign(np.maximum(np.abs(x) - np.float32(0.5), 0), x)
    assert workload.check(case, inputs, [{"out": out}], reference).ok
    out[-1] = 1e3 if dtype == "bfloat16" else 0  # one of many, against the wider tolerance
    assert not workload.check(case, inputs, [{"out": out}], reference).ok
