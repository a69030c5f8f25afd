"""A LoRA step trains its adapters and nothing else, on a base that is stored as small as it says, in every framework."""

import math

import numpy as np
import pytest
from support.cases import ACCELERATOR, CATALOG, FRAMEWORKS, data, lora_step, open_device, verdict

from metalbench.workloads.lora_step import STEPS

WORKLOAD = CATALOG.workload("lora_step")
FROZEN_STEPS = 10


def built(framework, case, inputs=None):
    device = open_device(framework)
    return CATALOG.implementation(framework, "lora_step").variants["native"](device, case, inputs or data("lora_step", case)[0])


def called(framework, step):
    """The loss of a call, and the rest of its outputs."""
    device, outputs = open_device(framework), dict(step())
    device.wait(outputs)
    host = {name: np.array(device.get(array)) for name, array in outputs.items()}
    return float(host.pop("loss")), host


def held(framework, step):
    """The frozen arrays as they are stored, on the host."""
    device = open_device(framework)
    return {(name, place): np.array(device.get(array)) for name, arrays in step.frozen.items() for place, array in enumerate(arrays)}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(("dtype", "base"), [("float32", "dense"), ("bfloat16", "int4")])
def test_ten_steps_leave_what_is_frozen_as_it_was_bit_for_bit(framework, dtype, base):
    case = lora_step(dtype, base)
    step = built(framework, case)
    before = held(framework, step)
    losses, trained = zip(*(called(framework, step) for _ in range(FROZEN_STEPS)), strict=True)
    assert {name.partition(".")[2] for name, _ in before} >= {"o", "gate", "up", "down", "k", "q", "v", "attention_norm", "mlp_norm"}
    after = held(framework, step)
    assert before.keys() == after.keys()
    for key, array in before.items():
        assert array.tobytes() == after[key].tobytes(), key
    assert set(trained[-1]) == set(case.adapters())
    for name, array in trained[-1].items():
        assert not np.array_equal(array, trained[0][name]), name
    assert losses[-2:] < losses[:2]  # of either batch


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_step_that_is_reset_begins_with_the_first_batch_and_adapters(framework):
    step = built(framework, lora_step("float32", "int8"))
    first = [called(framework, step)[0] for _ in range(3)]
    step.reset()
    assert [called(framework, step)[0] for _ in range(3)] == pytest.approx(first, rel=1e-6)
    assert first[0] != pytest.approx(first[1], rel=1e-3)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_base_takes_the_bytes_that_its_name_says(framework):
    """Beside the scales, which weigh the most where groups are few."""
    case = lora_step("bfloat16", "dense", width=256, hidden=256)
    matrices = sum(map(math.prod, case.of_layer().matrices().values())) * case.layers
    embedding = 2 * case.vocabulary * case.width
    found = {}
    for base in ("dense", "int8", "int4"):
        own = lora_step("bfloat16", base, width=256, hidden=256)
        found[base] = (built(framework, own).figures["weight_bytes"] - embedding) / matrices
    assert found["dense"] == 2
    assert 1 < found["int8"] <= 1 + 4 / 64
    assert 0.5 < found["int4"] <= 0.5 + 4 / 64


@pytest.mark.skipif(bool(ACCELERATOR), reason="written for the CPU's counter")
def test_memory_falls_with_the_base():
    """In the one framework that counts its memory on the CPU."""
    device, peaks = open_device("mlx"), []
    for case in WORKLOAD.cases("documents"):
        step = built("mlx", case, WORKLOAD.inputs(case, np.random.default_rng(0)))
        called("mlx", step)
        device.reset_peak()
        called("mlx", step)
        peaks.append(device.memory().peak - device.memory().live + step_bytes(step))
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[1] / peaks[3] > 1.3  # 16 bit over int4


def step_bytes(step):
    return sum(array.nbytes for arrays in step.frozen.values() for array in arrays)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_full_size_model_is_checked_on_a_twin(framework):
    """In small: three layers that repeat two."""
    case = lora_step("float32", "dense", full_size=True, layers=3, vocabulary=5000, block=8)
    check = verdict(framework, "lora_step", case, "native")
    assert check.ok, check
    assert check.figures["checked_layers"] == 2


def masks_of_q_and_v_exchanged(inputs):
    return {name: inputs[name][:, [1, 0]] for name in inputs if name.endswith(".kept")}


def masks_of_one_batch_only(inputs):
    return {name: inputs[name][[0, 0]] for name in inputs if name.endswith(".kept")}


def text_of_one_batch_only(inputs):
    return {"tokens": inputs["tokens"][[0, 0]]}


def scales_of_another_row(inputs):
    return {name: np.roll(inputs[name], 1, axis=0) for name in inputs if name.endswith("o.scales")}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("fault", [masks_of_q_and_v_exchanged, masks_of_one_batch_only, text_of_one_batch_only, scales_of_another_row])
def test_inputs_that_are_not_used_as_they_are_given(framework, fault):
    case = lora_step("float32", "int8")
    inputs, _ = data("lora_step", case)
    assert not verdict(framework, "lora_step", case, "native", inputs={**inputs, **fault(inputs)}).ok


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_16_bit_arithmetic_where_float32_is_declared(framework):
    case = lora_step("float32", "dense")
    assert not verdict(framework, "lora_step", case, "native", built_as=lora_step("bfloat16", "dense")).ok


def test_the_trajectory_is_three_epochs_of_text():
    case = lora_step("float32", "dense")
    inputs, reference = data("lora_step", case)
    assert inputs["tokens"].shape == (2, case.batch, case.block + 1)
    assert len(reference["losses"]) == STEPS == 3 * len(inputs["tokens"])
