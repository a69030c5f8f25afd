"""A cache has an end, is begun afresh by every call, and written in place it stays where it is and is smaller than one that grows."""

import importlib

import numpy as np
import pytest
from support.cases import ACCELERATOR, CATALOG, DTYPES, FRAMEWORKS, data, kv_cache, open_device, verdict

VARIANTS = list(CATALOG.workload("kv_cache").variants)


def adapter(framework):
    open_device(framework)
    return importlib.import_module(f"metalbench.backends.{framework}.kv_cache")


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
def test_without_that_error_no_framework_gets_it_right(framework, monkeypatch):
    """Nor says a word: a slice past the end is moved before it, or empty, and nothing is written. The check finds it."""
    monkeypatch.setattr(adapter(framework), "require_room", lambda position, capacity: None)
    check = verdict(framework, "kv_cache", kv_cache("float32", tokens=5, capacity=4), "in_place")
    assert not check.ok
    assert "token 4" in check.detail


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_preallocates_nothing_has_no_end(framework):
    check = verdict(framework, "kv_cache", kv_cache("float32", tokens=5, capacity=4), "concatenate")
    assert check.ok, check


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


def address(array):
    """Of a framework's array on the CPU; nothing holds on to it afterwards."""
    match type(array).__module__.partition(".")[0]:
        case "torch":
            return array.data_ptr()
        case "jaxlib":
            return array.unsafe_buffer_pointer()
        case "mlx":
            return np.array(array, copy=False).ctypes.data
        case "tensorflow":
            return np.asarray(memoryview(array.value())).ctypes.data


@pytest.mark.skipif(bool(ACCELERATOR), reason="NumPy sees the CPU's memory only")
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_cache_stays_where_it_is(framework, monkeypatch):
    """Looked at before every token: a copy at one and back at the next would not be seen from call to call."""
    own, case = adapter(framework), kv_cache("float32", tokens=16, capacity=16, head_size=64)
    caches, positions, addresses = [], [], set()

    class Watched(own.Cache):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            caches.append(self)

    def look(position, capacity):
        (cache,) = caches
        positions.append(position)
        addresses.add((address(cache.keys), address(cache.values)))

    monkeypatch.setattr(own, "Cache", Watched)
    monkeypatch.setattr(own, "require_room", look)
    device, step = built(framework, case, "in_place")
    for _ in range(3):
        device.wait(step())
    assert positions == [*range(16)] * 3
    assert len(addresses) == 1


@pytest.mark.parametrize(
    ("framework", "variant", "programs"),
    [
        ("jax", "in_place", 1),
        ("jax", "recompute", 4),  # for 1, 2, 4 and, all there are, 5 tokens
        ("jax", "concatenate", 5),
        ("tensorflow", "in_place", 1),
        ("tensorflow", "recompute", 1),
        ("tensorflow", "concatenate", 1),
    ],
)
def test_no_token_is_compiled_that_needs_not_be(framework, variant, programs, monkeypatch):
    device, own, traced = open_device(framework), adapter(framework), []
    device.release()  # what JAX has compiled before
    holder = own if framework == "jax" else own.Layer
    honest = holder.attended
    monkeypatch.setattr(holder, "attended", lambda *arguments: traced.append(variant) or honest(*arguments))
    _, step = built(framework, kv_cache("float32"), variant)
    for _ in range(2):
        device.wait(step())
    assert len(traced) == programs


def test_tensorflow_decodes_without_its_compiler_as_well(monkeypatch):
    """As on Metal, which has none: a slice of the variable is assigned to."""
    device, case = open_device("tensorflow"), kv_cache("float32")
    inputs, reference = data("kv_cache", case)
    with monkeypatch.context() as patch:
        patch.setattr(device, "kind", "metal")
        step = CATALOG.implementation("tensorflow", "kv_cache").variants["in_place"](device, case, inputs)
        out = np.array(step()["out"])
    check = CATALOG.workload("kv_cache").check(case, inputs, [{"out": out}], reference)
    assert check.ok, check
