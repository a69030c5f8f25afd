"""The list of operators, their references against SciPy, and what a wrong result or gradient looks like to the check."""

import math

import numpy as np
import pytest
from scipy import linalg, ndimage, signal, special, stats
from support.cases import CATALOG, operator

from metalbench.workloads import operators
from metalbench.workloads._operators_inputs import EPSILON, GROUPS, OPERATORS
from metalbench.workloads._operators_references import REFERENCES
from metalbench.workloads.operators import differentiated, judgements

WORKLOAD = CATALOG.workload("operators")
NAMED = {"grid_sample", "triangular_solve", "topk", "histogram", "group_norm", "signbit"}  # in Apple's notes


def given(name, dtype="float32"):
    return WORKLOAD.inputs(operator(name, dtype), np.random.default_rng(0))


def computed(name):
    """(inputs in float64, result)."""
    inputs = {key: array.astype(np.float64) if array.dtype.kind == "f" else array for key, array in given(name).items()}
    return inputs, REFERENCES[name](*(inputs[key] for key in OPERATORS[name].operands))


def test_the_list_has_sixty_operators_and_those_that_are_named():
    assert len(judgements()) >= 60
    assert {name for name, judged in judgements().items() if judged.named} == NAMED
    assert set(judgements()) == set(OPERATORS) == set(REFERENCES)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_result_has_the_shape_that_its_cost_is_counted_by(name):
    assert np.shape(computed(name)[1]) == OPERATORS[name].out


def correlated(x, weight, modes):
    """[batch, …, in] and [..., in, out], one pair of channels at a time."""
    out = np.zeros((*x.shape[:-1], weight.shape[-1]))
    for batch, source, target in np.ndindex(len(x), *weight.shape[-2:]):
        out[batch, ..., target] += signal.correlate(x[batch, ..., source], weight[..., source, target], modes)
    return out


def spread(x, weight):
    """A transposed convolution as it is defined: every element of the image scatters a multiple of the weights."""
    out = np.zeros((len(x), 2 * x.shape[1], 2 * x.shape[2], weight.shape[2]))
    for row, column in np.ndindex(x.shape[1:3]):
        out[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2] += np.tensordot(x[:, row, column], weight, (1, 3))
    return out


def sampled(x, rows, columns, mode):
    """Between pixels, places being [batch, …] in units of them."""
    out = np.empty((*rows.shape, x.shape[-1]))
    for batch, channel in np.ndindex(len(x), x.shape[-1]):
        out[batch, ..., channel] = ndimage.map_coordinates(x[batch, ..., channel], (rows[batch], columns[batch]), order=1, mode=mode)
    return out


def doubled(x):
    places = (np.arange(2 * x.shape[1]) + 0.5) / 2 - 0.5
    rows, columns = np.meshgrid(places, places, indexing="ij")
    return sampled(x, *(np.broadcast_to(place, (len(x), *place.shape)) for place in (rows, columns)), "nearest")


def at_grid(x, grid):
    """Zero lies beyond the border: what is half a pixel outside counts half."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    columns, rows = (((grid[..., axis] + 1) * x.shape[1] - 1) / 2 + 1 for axis in (0, 1))
    return sampled(padded, rows, columns, "nearest")


def normalised_by_group(x, weight, bias):
    out = np.empty_like(x)
    per_group = x.shape[-1] // GROUPS
    for batch, group in np.ndindex(len(x), GROUPS):
        channels = slice(group * per_group, (group + 1) * per_group)
        values = x[batch, ..., channels]
        out[batch, ..., channels] = (values - np.mean(values)) / math.sqrt(np.var(values) + EPSILON)
    return out * weight + bias


SCIPY = {
    "conv1d": lambda x, weight: correlated(x, weight, "same"),
    "conv2d": lambda x, weight: correlated(x, weight, "same"),
    "conv_transpose2d": spread,
    "interpolate": doubled,
    "grid_sample": at_grid,
    "group_norm": normalised_by_group,
    "max_pool2d": lambda x: ndimage.maximum_filter(x, (1, 2, 2, 1), origin=(0, -1, -1, 0))[:, ::2, ::2],
    "avg_pool2d": lambda x: ndimage.uniform_filter(x, (1, 2, 2, 1), origin=(0, -1, -1, 0))[:, ::2, ::2],
    "softmax": lambda x: special.softmax(x, axis=-1),
    "log_softmax": lambda x: special.log_softmax(x, axis=-1),
    "logsumexp": lambda x: special.logsumexp(x, axis=-1),
    "erf": special.erf,
    "sigmoid": special.expit,
    "silu": lambda x: x * special.expit(x),
    "gelu": lambda x: x * stats.norm.cdf(x),
    "softshrink": lambda x: x - np.clip(x, -0.5, 0.5),
    "searchsorted": np.searchsorted,
    "histogram": lambda x: np.histogram(x, 64, (-4, 4))[0],
    "cross_entropy": lambda x, index: -special.log_softmax(x, axis=-1)[np.arange(len(x)), index],
    "triangular_solve": lambda x, y: np.stack([linalg.solve_triangular(a, b, lower=True) for a, b in zip(x, y, strict=True)]),
    "cholesky": lambda x: np.stack([linalg.cholesky(a, lower=True) for a in x]),
}


@pytest.mark.parametrize("name", SCIPY)
def test_a_reference_is_what_scipy_says(name):
    inputs, result = computed(name)
    expected = SCIPY[name](*(inputs[key] for key in OPERATORS[name].operands))
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, given in OPERATORS.items() if given.differentiable])
def test_no_operand_is_near_a_kink_in_any_dtype(name):
    """A step ahead changes the result as much as a step back; across a kink, a jump or a tie it would not."""
    inputs = given(name, "bfloat16")
    wide = {key: inputs[key].astype(np.float64) if inputs[key].dtype.kind == "f" else inputs[key] for key in OPERATORS[name].operands}
    for key in differentiated(operator(name, "bfloat16")):
        step = operators.STEP * np.random.default_rng(1).standard_normal(wide[key].shape)
        if name == "cholesky":
            step += step.swapaxes(1, 2)
        behind, at, ahead = (REFERENCES[name](*{**wide, key: wide[key] + sign * step}.values()) for sign in (-1, 0, 1))
        assert np.max(np.abs(ahead - 2 * at + behind)) < 0.001 * np.max(np.abs(ahead - behind))


@pytest.mark.parametrize(("name", "power", "taken"), [("triangular_solve", 2, np.tril), ("inverse", 2, np.copy), ("cholesky", 1, np.copy)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_matrices_are_as_well_conditioned_as_the_tolerance_supposes(name, power, taken, dtype):
    """Of a Cholesky factor the condition is the root of the matrix's own."""
    for seed in range(5):
        x = WORKLOAD.inputs(operator(name, dtype), np.random.default_rng(seed))["x"]
        assert np.linalg.cond(taken(x)).max() ** power <= judgements()[name].condition


def right(name, dtype="float32"):
    """Outputs of ``mul`` and ``matmul`` with their gradients by the rules of calculus, and what they are checked with."""
    case, inputs = operator(name, dtype), given(name, dtype)
    x, y, c = (inputs[key].astype(np.float64) for key in ("x", "y", "cotangent"))
    if name == "mul":
        return case, inputs, {"out": x * y, "gradient.x": c * y, "gradient.y": c * x}
    return case, inputs, {"out": x @ y, "gradient.x": c @ y.swapaxes(1, 2), "gradient.y": x.swapaxes(1, 2) @ c}


def check(case, inputs, out):
    return WORKLOAD.check(case, inputs, [out], WORKLOAD.reference(case, inputs))


@pytest.mark.parametrize("name", ["mul", "matmul"])
def test_a_gradient_by_the_rules_of_calculus_is_right(name):
    found = check(*right(name))
    assert found.ok
    assert found.error < 1e-9


FAULTS = {
    "a thousandth too long": lambda out: {**out, "gradient.y": out["gradient.y"] * 1.001},
    "turned round": lambda out: {**out, "gradient.x": -out["gradient.x"]},
    "forgotten": lambda out: {**out, "gradient.x": 0 * out["gradient.x"]},
    "of the other operand": lambda out: {**out, "gradient.x": out["gradient.y"], "gradient.y": out["gradient.x"]},
    "flat": lambda out: {**out, "gradient.x": out["gradient.x"].reshape(-1)},
    "not a number": lambda out: {**out, "gradient.y": out["gradient.y"] * np.nan},
    "in 16 bit": lambda out: {**out, "gradient.x": out["gradient.x"].astype(np.float16)},
    "of one half of the elements": lambda out: {**out, "gradient.x": out["gradient.x"] * (np.arange(256) % 2)},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_gradient_that_is_wrong_is_found(fault):
    case, inputs, out = right("mul")
    found = check(case, inputs, FAULTS[fault](out))
    assert not found.ok
    assert "gradient" in found.detail


def test_a_selection_may_round_nothing_even_in_16_bit():
    case, inputs = operator("flip", "bfloat16"), given("flip", "bfloat16")
    out = {"out": inputs["x"][:, ::-1].copy(), "gradient.x": inputs["cotangent"][:, ::-1]}
    assert check(case, inputs, out).ok
    out["out"][3, :2] = out["out"][3, 1::-1]  # two elements of 65536 in each other's place
    found = check(case, inputs, out)
    assert (found.ok, found.tolerance) == (False, 0)
    assert found.error < WORKLOAD.tolerance(case)


def test_the_largest_may_come_in_any_order():
    case, inputs = operator("topk", "float32"), given("topk")
    places = np.argsort(inputs["x"])[:, -16:]
    gradient = np.zeros_like(inputs["x"])
    np.put_along_axis(gradient, places, inputs["cotangent"], -1)
    largest = np.take_along_axis(inputs["x"], places, -1)
    for order in (np.arange(16), np.arange(16)[::-1], np.random.default_rng(0).permutation(16)):
        assert check(case, inputs, {"out": largest[:, order], "gradient.x": gradient}).ok
    assert not check(case, inputs, {"out": np.sort(inputs["x"])[:, -17:-1], "gradient.x": gradient}).ok


def test_what_has_no_derivative_is_not_asked_for_one():
    for name in ("round", "signbit", "argmax", "histogram", "one_hot"):
        assert differentiated(operator(name, "float32")) == []
        assert set(WORKLOAD.reference(operator(name, "float32"), given(name))) == {"out"}
    assert differentiated(operator("batch_norm", "float32")) == ["x", "weight", "bias"]


def test_a_product_costs_three_times_its_forward_pass():
    cost = WORKLOAD.cost(operator("matmul", "float16"), "native")
    assert cost.flops == 3 * 2 * 4 * 64 * 128 * 64
    assert cost.bytes == 2 * (2 * (4 * 64 * 128 + 4 * 128 * 64) + 2 * 4 * 64 * 64)
