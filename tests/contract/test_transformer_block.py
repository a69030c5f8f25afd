"""A block step by step: more shapes, a cache that is written where it is, and a rate in tokens."""

import numpy as np
import pytest
from support.cases import ACCELERATOR, CATALOG, FRAMEWORKS, block, data, open_device, verdict

from metalbench.harness.inputs import prepare
from metalbench.harness.protocol import Measure, Open
from metalbench.harness.trial import run_trial

PREFILL, DECODE = block("float16", 16, 0), block("float32", 1, 40)


def built(framework, case, variant):
    return CATALOG.implementation(framework, "transformer_block").variants[variant](
        open_device(framework), case, data("transformer_block", case)[0]
    )


@pytest.mark.parametrize("case", [PREFILL, DECODE], ids=["prefill", "decode"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_prefill_and_decode_are_right_in_other_dtypes_too(framework, case):
    check = verdict(framework, "transformer_block", case, "eager")
    assert check.ok, check


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_call_does_the_same_and_leaves_what_was_given_before(framework):
    """The cache is changed in place; writing the same tokens at the same place again changes nothing."""
    device, step = open_device(framework), built(framework, DECODE, CATALOG.implementation(framework, "transformer_block").default)
    kept = [step() for _ in range(3)]
    for out in kept:
        device.wait(out)
    first, second, third = (np.array(device.get(out["out"])) for out in kept)
    assert np.array_equal(first, second)
    assert np.array_equal(first, third)


@pytest.fixture
def put(monkeypatch):
    """A function that makes the step of a framework and tells which caches it was given on the device."""

    def make(framework, variant):
        device, held = open_device(framework), []
        honest = device.put
        monkeypatch.setattr(device, "put", lambda *arguments: held.append(honest(*arguments)) or held[-1])
        return built(framework, DECODE, variant), [array for array in held if array.ndim == 4]

    return make


@pytest.mark.skipif(bool(ACCELERATOR), reason="memory is looked at on the CPU")
def test_pytorch_writes_the_cache_in_place(put):
    step, caches = put("torch", "eager")
    assert [bool(cache[:, :, -1].isnan().all()) for cache in caches] == [True, True]
    step()
    assert not any(cache.isnan().any() for cache in caches)


@pytest.mark.skipif(bool(ACCELERATOR), reason="memory is looked at on the CPU")
def test_jax_donates_the_cache(put):
    step, caches = put("jax", "compiled")
    places = [cache.unsafe_buffer_pointer() for cache in caches]
    step()["out"].block_until_ready()
    assert [cache.is_deleted() for cache in caches] == [True, True]
    assert [cache.unsafe_buffer_pointer() for cache in step._cache] == places


@pytest.mark.skipif(bool(ACCELERATOR), reason="memory is looked at on the CPU")
def test_xla_assigns_to_a_slice_of_tensorflows_variables():
    step = built("tensorflow", DECODE, "compiled")
    places = [[np.asarray(memoryview(cache.value())).ctypes.data for cache in step._cache] for _ in range(3) if step()]
    assert places[0] == places[1] == places[2]


@pytest.mark.skipif(bool(ACCELERATOR), reason="memory is looked at on the CPU")
def test_mlx_makes_no_second_cache():
    """Its counter of memory tells: a cache of 16 MiB, and a call that takes less than one of them."""
    device, case = open_device("mlx"), block("float32", 1, (16 << 20) // (2 * 2 * 32 * 4) - 1)
    step = built("mlx", case, "eager")
    for _ in range(2):  # the first time the caches are still those that were given
        device.reset_peak()
        live = device.memory().live
        device.wait(step())
    assert device.memory().peak - live < 16 << 20


def test_a_launch_counts_its_tokens(tmp_path):
    device, case = open_device("torch"), block("float32", 16, 0)
    own = CATALOG.workload("transformer_block")
    folder = prepare(own, case, 0, CATALOG.workload_files[own.name], tmp_path)
    job = Measure(
        workload=own.name, case=case.parameters(), variant="eager", data=str(folder), throughput=False, cold=False, budget=0, memory="none"
    )
    kind = next(name for name, kind in CATALOG.frameworks["torch"].devices.items() if kind.accelerator == ACCELERATOR)
    found = run_trial(job, Open(framework="torch", kind=kind), device, CATALOG, lambda stage: None)
    assert found.status == "ok", found.reason
    assert found.amounts == {"tokens": 2 * 16}
