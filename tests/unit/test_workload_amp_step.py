"""What is left of the loss after a long trajectory, by precision."""

import math
from functools import cache

import numpy as np
import pytest
from support.cases import CATALOG

from metalbench.workloads.amp_step import AmpStepCase, loss_and_gradients
from metalbench.workloads.base import rounded

WORKLOAD = CATALOG.workload("amp_step")
CLAIMED = 0.01  #: how near the documents' claim on quality wants the losses to be


def case(dtype="float32", steps=50):
    return AmpStepCase(dtype=dtype, batch=32, width=64, hidden=128, blocks=1, classes=32, steps=steps)


@cache
def known():
    inputs = WORKLOAD.inputs(case(), np.random.default_rng(0))
    return inputs, WORKLOAD.reference(case(), inputs)


def trained(keep=lambda name, value: value, steps=50):
    """Outputs of AdamW in float64 as its paper writes it; ``keep`` is what becomes of a parameter where it is stored."""
    inputs, _ = known()
    p = {name: inputs[name].astype(np.float64) for name in case().shapes()}
    m, v, outputs = dict.fromkeys(p, 0.0), dict.fromkeys(p, 0.0), []
    for t in range(1, steps + 1):
        loss, gradients = loss_and_gradients(case(), p, inputs["x"].astype(np.float64), inputs["labels"])
        for name, g in gradients.items():
            m[name], v[name] = 0.9 * m[name] + 0.1 * g, 0.999 * v[name] + 0.001 * g * g
            moved = 1e-4 * (m[name] / (1 - 0.9**t) / np.sqrt(v[name] / (1 - 0.999**t)) + 0.01 * p[name])
            p[name] = keep(name, p[name] - moved)
        outputs.append({"loss": np.float32(loss), **{name: value.astype(np.float32) for name, value in p.items()}})
    return outputs


def check(outputs, dtype="float32"):
    inputs, reference = known()
    return WORKLOAD.check(case(dtype), inputs, outputs, reference)


def test_an_honest_trajectory_ends_where_float64_does():
    outputs = trained()
    found = check(outputs)
    assert found.ok, found
    assert found.figures["relative_loss"] == pytest.approx(1, abs=1e-5)
    assert float(outputs[-1]["loss"]) < 0.8 * float(outputs[0]["loss"])  # there was something to learn


def test_master_weights_in_16_bit_learn_less_by_more_than_the_claim_allows():
    """The first steps' losses would pass in bfloat16."""
    found = check(trained(lambda name, value: rounded(value, "bfloat16").astype(np.float64)), "bfloat16")
    assert found.error <= WORKLOAD.tolerance(case("bfloat16"))
    assert found.figures["relative_loss"] > 1 + 2 * CLAIMED


def test_steps_that_are_skipped_count():
    """As with a scale that begins far too high: nothing is learnt meanwhile."""
    learnt, inputs = trained(), known()[0]
    idle = {"loss": learnt[0]["loss"], **{name: inputs[name] for name in case().shapes()}}
    found = check([idle] * 4 + learnt[:-4], "float16")
    assert found.figures["skipped_steps"] == 4
    assert found.figures["relative_loss"] > 1 + CLAIMED


def test_a_loss_that_is_lost_on_the_way_is_not_right():
    outputs = trained()
    outputs[-1] = {**outputs[-1], "loss": np.float32(math.nan)}
    found = check(outputs)
    assert (found.ok, found.detail) == (False, "the loss of step 50 is NaN or infinite")


def test_only_the_documents_ask_for_long_trajectories_and_updates_are_kept_of_the_first_steps():
    cases = {suite: list(WORKLOAD.cases(suite)) for suite in ("quick", "standard", "large", "documents")}
    long = [case for case in cases["documents"] if WORKLOAD.calls_checked(case) == 50]
    assert {case.dtype for case in long} == {"float32", "float16", "bfloat16"}
    assert {WORKLOAD.calls_checked(case) for suite in cases for case in cases[suite] if case not in long} == {5}
    assert "50 steps" in long[0].label()
    reference = known()[1]
    assert len(reference["losses"]) == 50
    assert len(reference["head.weight"]) == 5
