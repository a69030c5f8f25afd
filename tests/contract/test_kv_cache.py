"""A cache has an end, is begun afresh by every call, and written in place it takes less memory than one that grows."""

import numpy as np
import pytest
from support.cases import CATALOG, DTYPES, FRAMEWORKS, data, kv_cache, open_device, verdict

VARIANTS = list(CATALOG.workload("kv_cache").variants)


def built(framework, case, variant):
    device = open_device(framework)
    return device, CATALOG.implementation(framework, "kv_cache").variants[variant](device, case, data("kv_cache", case)[0])


def called(device, step):
    outputs = step()
    device.wait(outputs)
    return np.array(device.get(outputs["out"]))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_writing_past_the_preallocated_length_is_an_error(framework):
    device, step = built(framework, kv_cache("float32", tokens=5, capacity=4), "in_place")
    with pytest.raises(IndexError, match="position 4 is past the end of a KV cache preallocated for 4 tokens"):
        called(device, step)
    assert device.diagnose(IndexError("position 4 is past the end")) == "failed"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_last_position_can_be_written(framework):
    assert verdict(framework, "kv_cache", kv_cache("float32", tokens=4, capacity=4), "in_place").ok


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_call_begins_with_an_empty_cache(framework, variant):
    device, step = built(framework, kv_cache("float32"), variant)
    first = called(device, step)
    assert np.array_equal(called(device, step), first)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_token_that_was_forgotten_is_missed_by_those_after_it(framework, variant):
    case = kv_cache("float32")
    inputs, _ = data("kv_cache", case)
    forgotten = inputs["x"].copy()
    forgotten[:, 2] = 0
    check = verdict(framework, "kv_cache", case, variant, inputs={**inputs, "x": forgotten})
    assert not check.ok
    for position in (0, 1):
        assert f"token {position} " not in check.detail


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_wrong_token_does_not_hide_in_the_norm_of_all(dtype):
    case = kv_cache(dtype)
    own, (inputs, reference) = CATALOG.workload("kv_cache"), data("kv_cache", case)
    out = reference["out"].copy()
    assert own.check(case, inputs, [{"out": out}], reference).ok
    out[:, -1] *= 1 + 2 * own.tolerance(case)
    check = own.check(case, inputs, [{"out": out}], reference)
    assert (check.ok, check.detail.partition(" is")[0]) == (False, f"token {case.tokens - 1}")


def test_a_new_tensor_for_every_token_shows_in_memory():
    """In MLX, whose own counter tells on every device."""
    case, peaks = kv_cache("float32", tokens=16, capacity=16, batch=64), {}
    for variant in ("in_place", "concatenate"):
        device, step = built("mlx", case, variant)
        called(device, step)
        device.release()
        device.reset_peak()
        device.wait(step())
        peaks[variant] = device.memory().peak
        del step
    cache = 2 * 4 * np.prod(case.cache_shape())
    assert peaks["concatenate"] - peaks["in_place"] > cache / 4
