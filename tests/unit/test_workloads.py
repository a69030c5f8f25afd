"""References, costs and tolerances against truth found another way."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import CATALOG, TELLING

from metalbench.workloads.amp_step import AmpStepCase, loss_and_gradients
from metalbench.workloads.attention import AttentionCase, causal_mask
from metalbench.workloads.base import EPS, normwise_error, reduction_tolerance, rounded
from metalbench.workloads.fft import FFTCase
from metalbench.workloads.int4_matmul import Int4MatmulCase, dequantize, pack_bytes, quantize
from metalbench.workloads.operators import judgements
from metalbench.workloads.roofline import RooflineCase

SUITES = ("quick", "standard", "large", "documents")
WORKLOADS = tuple(TELLING)
MOVES = {"copy", "empty", "to_device", "to_host"}  #: kinds and directions that compute nothing
MOVES |= {name for name, judged in judgements().items() if judged.exact}  # they select, compare or count


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("suite", SUITES)
def test_cases_are_distinct_named_and_priced(name, suite):
    workload = CATALOG.workload(name)
    cases = list(workload.cases(suite))
    labels = [case.label() for case in cases]
    assert len(set(labels)) == len(labels) == len(cases)
    assert cases or suite in {"quick", "documents"}  # which hold a few telling ones, of some workloads none
    for case in cases:
        assert type(case)(**case.parameters()) == case
        moves = not MOVES.isdisjoint(map(str, case.parameters().values()))
        for variant in workload.variants:
            cost = workload.cost(case, variant)
            assert 0 < cost.bytes <= cost.footprint or variant == "share"
            assert cost.flops > 0 or moves
        assert 0 < workload.tolerance(case) < 0.1 or moves


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_standard_suite_has_what_the_workload_promises(name):
    cases = [case.parameters() for case in CATALOG.workload(name).cases("standard")]
    promised = {
        "attention": {"dtype": {"float32", "float16", "bfloat16"}, "causal": {True, False}},
        "fft": {"kind": {"complex", "real"}, "direction": {"forward", "roundtrip"}},
        "int4_matmul": {"m": {1, 16, 512}, "group": {32, 64, 128}},
        "quantized_matmul": {"m": {1, 512}, "scheme": {"int8", "int4", "lookup4"}, "weights": {"even", "clustered"}},
        "amp_step": {"dtype": {"float32", "float16", "bfloat16"}},
        "roofline": {"dtype": {"float32", "float16", "bfloat16"}, "kind": {"copy", "matmul"}},
        "transformer_block": {"dtype": {"float32", "float16", "bfloat16"}, "queries": {1, 512}, "context": {0, 1024}},
        "lora_step": {"dtype": {"float32", "bfloat16"}, "base": {"dense", "int8", "int4"}},
        "custom_op": {"dtype": {"float32", "float16", "bfloat16"}},
        "operators": {"dtype": {"float32", "float16", "bfloat16"}, "operator": set(judgements())},
        "kv_cache": {"dtype": {"float32", "float16", "bfloat16"}, "tokens": {32, 64, 128}},
        "dispatch": {"kind": {"empty", "tiny"}},
        "transfer": {"direction": {"to_device", "to_host"}, "size": {1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26}},
    }[name]
    for key, values in promised.items():
        assert {case[key] for case in cases} == values


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_generator_makes_the_same_inputs_and_another_seed_others(name):
    workload, case = CATALOG.workload(name), TELLING[name][0]
    first, again, other = (workload.inputs(case, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert {key: value.tobytes() for key, value in first.items()} == {key: value.tobytes() for key, value in again.items()}
    assert any(first[key].tobytes() != other[key].tobytes() for key in first)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@given(value=st.floats(-60000, 60000, width=32))
def test_rounding_is_to_the_nearest_number_of_the_dtype(dtype, value):
    array = np.array([value], np.float32)
    low = rounded(array, dtype)
    assert rounded(low, dtype)[0] == low[0]
    assert abs(float(low[0]) - value) <= EPS[dtype] / 2 * abs(value) + 2.0**-24


@given(queries=st.integers(1, 9), more=st.integers(0, 9))
def test_the_last_query_sees_every_key_and_each_before_it_one_fewer(queries, more):
    mask = causal_mask(queries, queries + more)
    assert list(mask.sum(1)) == [more + 1 + query for query in range(queries)]
    assert mask[-1].all()


def test_attention_by_its_definition():
    """One output computed as the formula is read, without matrices."""
    case = AttentionCase(batch=1, heads=4, kv_heads=2, queries=3, keys=5, head_size=8, causal=True)
    workload = CATALOG.workload("attention")
    inputs = workload.inputs(case, np.random.default_rng(3))
    head, query = 3, 1
    key_head, visible = head // 2, query + 1 + (5 - 3)
    scores = [
        math.fsum(float(a) * float(b) for a, b in zip(inputs["q"][0, head, query], k, strict=True)) / math.sqrt(8)
        for k in inputs["k"][0, key_head]
    ]
    weights = [math.exp(score) for score in scores[:visible]]
    expected = [
        math.fsum(w * float(v[i]) for w, v in zip(weights, inputs["v"][0, key_head], strict=False)) / math.fsum(weights) for i in range(8)
    ]
    assert workload.reference(case, inputs)["out"][0, head, query] == pytest.approx(expected, rel=1e-12)


@given(queries=st.integers(1, 12), more=st.integers(0, 12))
def test_attention_counts_the_pairs_that_see_each_other(queries, more):
    case = AttentionCase(batch=2, heads=3, kv_heads=1, queries=queries, keys=queries + more, head_size=4, causal=True)
    pairs = int(causal_mask(queries, queries + more).sum())
    assert CATALOG.workload("attention").cost(case, "fused").flops == 4 * 2 * 3 * pairs * 4


def test_a_sampled_reference_agrees_with_the_whole_one(monkeypatch):
    for name in ("attention", "fft", "int4_matmul", "roofline"):
        workload, case = CATALOG.workload(name), TELLING[name][0]
        inputs = workload.inputs(case, np.random.default_rng(0))
        whole = workload.reference(case, inputs)
        with monkeypatch.context() as patch:
            patch.setattr(f"metalbench.workloads.{name}.FULL_REFERENCE", 0)
            sampled = workload.reference(case, inputs)
        assert sampled["out.at"].size < whole["out"].size or name == "fft"
        np.testing.assert_allclose(sampled["out"], whole["out"].reshape(-1)[sampled["out.at"]], rtol=1e-10, atol=1e-12)
        out = {key: value.astype(np.complex64 if np.iscomplexobj(value) else np.float32) for key, value in whole.items() if key == "out"}
        assert workload.check(case, inputs, [out], sampled).ok
        out["out"].reshape(-1)[sampled["out.at"][0]] += 1e3
        assert not workload.check(case, inputs, [out], sampled).ok


def test_a_product_of_square_matrices_by_its_definition():
    workload, case = CATALOG.workload("roofline"), RooflineCase(kind="matmul", size=20)
    inputs = workload.inputs(case, np.random.default_rng(0))
    expected = math.fsum(float(a) * float(b) for a, b in zip(inputs["a"][3], inputs["b"][:, 5], strict=True))
    assert workload.reference(case, inputs)["out"][3, 5] == pytest.approx(expected, rel=1e-12)
    multiplications, additions = 20 * 20 * 20, 20 * 20 * 20
    assert workload.cost(case, "native").flops == multiplications + additions
    assert workload.cost(case, "native").bytes == sum(inputs[name].nbytes for name in "ab") + 20 * 20 * 4


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", [1000, 1 << 21])
def test_a_copy_has_no_error_to_lose(dtype, size):
    """Its last bit counts, and so do its ends where only a sample is looked at. It moves its bytes twice and computes nothing."""
    workload, case = CATALOG.workload("roofline"), RooflineCase(kind="copy", dtype=dtype, size=size)
    inputs = workload.inputs(case, np.random.default_rng(0))
    reference = workload.reference(case, inputs)
    assert workload.check(case, inputs, [{"out": inputs["x"].copy()}], reference).error == 0
    for place in (0, size - 1):
        spoilt = inputs["x"].copy()
        spoilt[place] = np.nextafter(spoilt[place], np.float32(9))
        assert not workload.check(case, inputs, [{"out": spoilt}], reference).ok
    assert not workload.check(case, inputs, [{"out": np.zeros_like(inputs["x"])}], reference).ok
    assert workload.cost(case, "native").bytes == 2 * size * (4 if dtype == "float32" else 2)
    assert workload.cost(case, "native").flops == 0


def test_copies_leave_every_cache():
    """The largest there are hold some 100 MiB on a desktop and half a GiB in a server."""
    copied = {suite: next(case for case in CATALOG.workload("roofline").cases(suite) if case.kind == "copy") for suite in SUITES[1:]}
    assert {suite: case.size * 4 >> 20 for suite, case in copied.items()} == {"documents": 64, "standard": 256, "large": 1024}
    assert copied["documents"].label() == "copy 64 MiB float32"


@pytest.mark.parametrize("kind", ["complex", "real"])
def test_a_transform_by_its_definition(kind):
    case = FFTCase(kind=kind, batch=1, rows=1, length=12, direction="forward")
    workload = CATALOG.workload("fft")
    x = workload.inputs(case, np.random.default_rng(0))["x"]
    k = np.arange(12 if kind == "complex" else 7)
    expected = np.exp(-2j * np.pi * np.outer(k, np.arange(12)) / 12) @ x[0].astype(np.complex128)
    np.testing.assert_allclose(workload.reference(case, {"x": x})["out"][0], expected, atol=1e-12)


@given(seed=st.integers(0, 1000), group=st.sampled_from([32, 64, 128]), scale=st.floats(1e-4, 1e3))
@settings(max_examples=50)
def test_quantized_weights_are_near_and_exact_in_16_bit(seed, group, scale):
    weights = (np.random.default_rng(seed).standard_normal((4, 256)) * scale).astype(np.float32)
    codes, scales, offsets = quantize(weights, group)
    near = dequantize(codes, scales, offsets)
    assert codes.max() <= 15
    assert np.all(np.abs(near - weights) <= np.repeat(scales, group, axis=1) * 1.0001)
    if 1e-3 < scale < 100:
        for array in (scales, offsets, offsets + 8 * scales, near.astype(np.float32)):
            assert np.array_equal(rounded(array, "bfloat16"), array)
            assert np.array_equal(rounded(array, "float16"), array)


def test_packed_codes_hold_the_even_one_in_the_low_half():
    codes = np.arange(16, dtype=np.uint8).reshape(2, 8)
    packed = pack_bytes(codes)
    assert packed.shape == (2, 4)
    assert np.array_equal(np.stack((packed & 15, packed >> 4), -1).reshape(2, 8), codes)


def test_the_hand_written_backward_against_finite_differences():
    case = AmpStepCase(batch=5, width=6, hidden=7, blocks=2, classes=4)
    inputs = CATALOG.workload("amp_step").inputs(case, np.random.default_rng(0))
    parameters = {name: inputs[name].astype(np.float64) for name in case.shapes()}
    x, labels = inputs["x"].astype(np.float64), inputs["labels"]
    _, gradients = loss_and_gradients(case, parameters, x, labels)
    assert set(gradients) == set(parameters)
    rng, step = np.random.default_rng(1), 1e-5
    for name, value in parameters.items():
        direction = rng.standard_normal(value.shape)
        ends = [loss_and_gradients(case, parameters | {name: value + sign * step * direction}, x, labels)[0] for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(float((gradients[name] * direction).sum()), rel=1e-6, abs=1e-9), name


def test_a_skipped_step_is_recorded_and_does_not_spoil_the_trajectory():
    """Outputs made from the reference itself: one float16 step that overflowed, then the reference's first four."""
    workload, case = CATALOG.workload("amp_step"), TELLING["amp_step"][-2]
    case = type(case)(**{**case.parameters(), "dtype": "float16"})
    inputs = workload.inputs(case, np.random.default_rng(0))
    reference = workload.reference(case, inputs)
    parameters = {name: inputs[name].astype(np.float64) for name in case.shapes()}
    outputs = [{"loss": np.float64(reference["losses"][0]), **{name: inputs[name] for name in parameters}}]
    for step in range(4):
        for name, value in parameters.items():
            parameters[name] = value * (1 - 1e-4 * 0.01) + reference[name][step].reshape(value.shape)
        outputs.append({"loss": reference["losses"][step], **{name: value.astype(np.float32) for name, value in parameters.items()}})
    check = workload.check(case, inputs, outputs, reference)
    assert check.ok, check
    assert check.figures["skipped_steps"] == 1
    frozen = [outputs[0]] * 5
    assert not workload.check(case, inputs, frozen, reference).ok


@given(length=st.integers(1, 10**6), dtype=st.sampled_from(["float32", "float16", "bfloat16"]))
def test_the_common_tolerance(length, dtype):
    assert reduction_tolerance(dtype, length) == pytest.approx(2 * EPS[dtype] + 4 * length**0.5 * 2.0**-23)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_infinitely_wrong(bad):
    out = np.ones(4, np.float32)
    out[2] = bad
    assert normwise_error(out, {"out": np.ones(4)}, "out") == math.inf
    assert normwise_error(np.ones(5), {"out": np.ones(4)}, "out") == math.inf
    assert normwise_error(np.ones(4), {"out": np.ones(4)}, "out") == 0


def test_products_of_the_wrong_kind_are_refused():
    case = Int4MatmulCase(m=1, n=8, k=32, group=32)
    workload = CATALOG.workload("int4_matmul")
    inputs = workload.inputs(case, np.random.default_rng(0))
    assert not workload.check(case, inputs, [{}], workload.reference(case, inputs)).ok


def test_a_nan_where_nobody_samples_is_found_all_the_same():
    exact = {"out": np.ones(2), "out.at": np.array([0, 3])}
    out = np.ones(4, np.float32)
    assert normwise_error(out, exact, "out") == 0
    out[1] = np.nan
    assert normwise_error(out, exact, "out") == math.inf


def test_a_nan_in_one_parameter_is_found():
    workload, case = CATALOG.workload("amp_step"), TELLING["amp_step"][0]
    inputs = workload.inputs(case, np.random.default_rng(0))
    reference = workload.reference(case, inputs)
    parameters = {name: inputs[name].astype(np.float64) for name in case.shapes()}
    outputs = []
    for step in range(5):
        for name, value in parameters.items():
            parameters[name] = value * (1 - 1e-4 * 0.01) + reference[name][step].reshape(value.shape)
        outputs.append({"loss": reference["losses"][step], **{name: value.astype(np.float32) for name, value in parameters.items()}})
    assert workload.check(case, inputs, outputs, reference).ok
    last = list(parameters)[-1]
    outputs[-1][last] = np.full_like(outputs[-1][last], np.nan)
    assert not workload.check(case, inputs, outputs, reference).ok
