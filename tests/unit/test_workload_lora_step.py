"""What lora_step is held against: its float64 gradients, its text, and what its check refuses."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from support.cases import CATALOG, data, lora_step

from metalbench.workloads._lora_step_inputs import text
from metalbench.workloads._lora_step_reference import loss_and_gradients
from metalbench.workloads.base import rounded
from metalbench.workloads.int4_matmul import dequantize
from metalbench.workloads.lora_step import SCALE, STEPS, frozen, unfolded
from metalbench.workloads.transformer_block import TransformerBlock

WORKLOAD = CATALOG.workload("lora_step")


def model(case):
    """(frozen weights, adapters, what dropout multiplies by, tokens), of a dense base, in float64."""
    inputs = WORKLOAD.inputs(case, np.random.default_rng(0))
    matrices, norms = frozen(case)
    weights = {name: inputs[name].astype(np.float64) for name in ("embedding", *matrices, *norms)}
    adapters = {name: inputs[name].astype(np.float64) for name in case.adapters()}
    dropout = [inputs[f"layer{layer}.kept"][0] / 0.9 for layer in range(case.layers)]
    return weights, adapters, dropout, inputs["tokens"][0]


def test_the_hand_written_backward_against_finite_differences():
    case = lora_step("float32", "dense", heads=4, kv_heads=2, width=16, hidden=24, block=5)
    weights, adapters, dropout, tokens = model(case)

    def loss(changed):
        return loss_and_gradients(case.of_layer(), weights, adapters | changed, SCALE, dropout, tokens)

    _, gradients = loss({})
    assert set(gradients) == set(adapters)
    rng, step = np.random.default_rng(1), 1e-5
    for name, value in adapters.items():
        direction = rng.standard_normal(value.shape)
        ends = [loss({name: value + sign * step * direction})[0] for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(float((gradients[name] * direction).sum()), rel=1e-6, abs=1e-9), name


def test_adapters_without_dropout_are_a_change_of_the_weights():
    """W + alpha/rank·B·A, and no adapters."""
    case = lora_step("float32", "dense")
    weights, adapters, dropout, tokens = model(case)
    ones, nothing = [np.ones_like(factors) for factors in dropout], {name: value * 0 for name, value in adapters.items()}
    merged = {
        f"layer{n}.{which}": 32 / 8 * adapters[f"layer{n}.{which}.b"] @ adapters[f"layer{n}.{which}.a"] for n in (0, 1) for which in "qv"
    }
    merged = {name: weights[name] + change for name, change in merged.items()}
    adapted, _ = loss_and_gradients(case.of_layer(), weights, adapters, SCALE, ones, tokens)
    changed, _ = loss_and_gradients(case.of_layer(), weights | merged, nothing, SCALE, ones, tokens)
    plain, _ = loss_and_gradients(case.of_layer(), weights, nothing, SCALE, ones, tokens)
    assert adapted == pytest.approx(changed, rel=1e-12)
    assert abs(adapted - plain) > 1e-3


def test_the_model_is_made_of_transformer_blocks():
    """Its loss by that workload's own reference, layer upon layer."""
    case = lora_step("float32", "dense")
    weights, adapters, dropout, tokens = model(case)
    h, block = weights["embedding"][tokens[:, :-1]], case.of_layer()
    empty = np.zeros((case.batch, case.kv_heads, case.block, block.head_size))
    for layer in ("layer0.", "layer1."):
        own = {name.removeprefix(layer): value for name, value in weights.items() if name.startswith(layer)}
        h = TransformerBlock().reference(block, {"x": h, "k_cache": empty, "v_cache": empty, **own})["out"]
    logits = h / np.sqrt((h**2).mean(-1, keepdims=True) + 1e-5) * weights["norm"] @ weights["embedding"].T
    chosen = [
        math.log(math.fsum(map(math.exp, logits[row, place]))) - logits[row, place, tokens[row, place + 1]]
        for row in range(case.batch)
        for place in range(case.block)
    ]
    nothing = {name: value * 0 for name, value in adapters.items()}
    loss, _ = loss_and_gradients(block, weights, nothing, SCALE, dropout, tokens)
    assert loss == pytest.approx(math.fsum(chosen) / len(chosen), rel=1e-12)


def test_text_has_the_statistics_of_plain_text():
    """Frequencies fall as Zipf found them to, and a word tells something of the next one."""
    words = text(50, 2000, 1000, np.random.default_rng(0))
    assert words.dtype == np.int32
    assert 0 <= words.min() < words.max() < 1000
    counts = Counter(words.reshape(-1).tolist())
    frequencies = np.array(sorted(counts.values(), reverse=True)[:300]) / words.size
    slope, _ = np.polyfit(np.log(np.arange(10, 300)), np.log(frequencies[10:]), 1)
    assert -1.25 < slope < -0.75

    def surprise(sequence):
        """Bits of a word that are left when the word before it is known, as counted."""
        seen = Counter(pairwise(sequence))
        before = Counter(sequence[:-1])
        return -sum(n * math.log2(n / before[first]) for (first, _), n in seen.items()) / len(sequence)

    flat = words.reshape(-1).tolist()
    assert surprise(flat) < surprise(np.random.default_rng(1).permutation(flat).tolist()) - 1


@pytest.mark.parametrize("base", ["int8", "int4"])
def test_quantized_weights_are_exact_in_16_bit_and_near_what_they_stand_for(base):
    quantized, dense = (WORKLOAD.inputs(lora_step("float32", kind), np.random.default_rng(0)) for kind in (base, "dense"))
    codes, scales = quantized["layer0.q.codes"], quantized["layer0.q.scales"]
    weights = dequantize(codes, scales, quantized.get("layer0.q.offsets", scales * 0)).astype(np.float32)
    assert np.array_equal(rounded(weights, "bfloat16"), weights)
    assert np.all(np.abs(weights - dense["layer0.q"]) <= np.repeat(scales, 64, axis=1) * 1.0001)


def test_a_smaller_base_takes_less():
    for suite in ("documents", "standard", "large"):
        found = {(case.dtype, case.base): WORKLOAD.cost(case, "native").footprint for case in WORKLOAD.cases(suite) if not case.full_size}
        falling = [found[key] for key in (("float32", "dense"), ("bfloat16", "dense"), ("bfloat16", "int8"), ("bfloat16", "int4"))]
        assert falling == sorted(falling, reverse=True)
        assert len(set(falling)) == 4


def test_a_full_size_model_has_three_billion_parameters_of_which_few_are_given():
    (case,) = (case for case in WORKLOAD.cases("large") if case.full_size and case.base == "int4")
    parameters = case.layers * sum(map(math.prod, case.of_layer().matrices().values())) + case.vocabulary * case.width
    assert 3.1e9 < parameters < 3.3e9
    assert (case.batch, case.block, case.twin().layers, case.twin().full_size) == (4, 128, 2, False)
    assert "checked on a twin" in case.label()
    small = lora_step("float32", "int8", full_size=True, layers=5, vocabulary=5000)
    inputs = WORKLOAD.inputs(small, np.random.default_rng(0))
    whole = unfolded(small, inputs)
    assert not any(name.startswith("layer2") for name in inputs)
    assert whole["layer3.q.b"] is inputs["layer1.q.b"]
    assert whole["embedding"].shape == (5000, 64)
    assert set(whole) > set(small.adapters())
    assert {f"layer4.{name}" for name in ("o.codes", "o.scales", "mlp_norm", "kept")} < set(whole)
    plain = WORKLOAD.inputs(lora_step("float32", "int8"), np.random.default_rng(0))
    assert unfolded(lora_step("float32", "int8"), plain) == plain


def made(case, reference, inputs):
    """Outputs as the reference has them."""
    adapters, outputs = {name: inputs[name].astype(np.float64) for name in case.adapters()}, []
    for step in range(STEPS):
        for name, value in adapters.items():
            adapters[name] = value * (1 - 1e-4 * 0.01) + reference[name][step].reshape(value.shape)
        outputs.append({"loss": reference["losses"][step], **{name: value.astype(np.float32) for name, value in adapters.items()}})
    return outputs


def test_only_the_adapters_may_be_trained_and_all_of_them():
    case = lora_step("float32", "dense")
    inputs, reference = data("lora_step", case)
    outputs = made(case, reference, inputs)
    assert WORKLOAD.check(case, inputs, outputs, reference).ok
    more = WORKLOAD.check(case, inputs, [out | {"layer0.o": inputs["layer0.o"]} for out in outputs], reference)
    assert (more.ok, more.detail) == (False, "layer0.o is trained and ought to be frozen")
    fewer = [{name: value for name, value in out.items() if name != "layer1.v.b"} for out in outputs]
    less = WORKLOAD.check(case, inputs, fewer, reference)
    assert (less.ok, less.detail) == (False, "layer1.v.b ought to be trained")
    still = [out | {"layer1.v.b": inputs["layer1.v.b"]} for out in outputs]
    assert not WORKLOAD.check(case, inputs, still, reference).ok


@pytest.mark.parametrize(
    "fault",
    [
        {"SCALE": 2 * SCALE},
        {"KEEP": 1.0},
        {"BATCHES": 1},
    ],
    ids=["an alpha of another size", "dropout that does not make up for what it drops", "one batch of text again and again"],
)
def test_another_recipe_is_found_out(fault, monkeypatch):
    case = lora_step("float32", "dense")
    inputs, reference = data("lora_step", case)
    with monkeypatch.context() as patch:
        for name, value in fault.items():
            patch.setattr(f"metalbench.workloads.lora_step.{name}", value)
        outputs = made(case, WORKLOAD.reference(case, inputs), inputs)
    assert not WORKLOAD.check(case, inputs, outputs, reference).ok


def test_a_full_size_step_is_judged_by_its_twin_and_must_be_finite_itself():
    case = lora_step("float32", "dense", full_size=True, layers=3, vocabulary=5000)
    inputs, reference = data("lora_step", case)
    twin = made(case.twin(), reference, inputs)
    stacked = {f"twin.{name}": np.stack([out[name] for out in twin]) for name in twin[0]}
    own = {"loss": np.float64(8.5), **{name: np.zeros(shape, np.float32) for name, shape in case.adapters().items()}}
    check = WORKLOAD.check(case, inputs, [own | stacked] * STEPS, reference)
    assert check.ok, check
    assert check.figures["checked_layers"] == 2
    off = stacked | {"twin.loss": stacked["twin.loss"] * 1.01}
    assert not WORKLOAD.check(case, inputs, [own | off] * STEPS, reference).ok
    assert not WORKLOAD.check(case, inputs, [own | stacked, own | stacked | {"loss": np.float64(math.nan)}], reference).ok
