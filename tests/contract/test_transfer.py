"""Whether host and device read the same memory is told as it is; what arrives is of this call."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from support.cases import ACCELERATOR, CATALOG, FRAMEWORKS, data, open_device, transfer

SENT, BROUGHT = transfer("to_device", 1 << 16), transfer("to_host", 1 << 16)
#: Where a CPU's memory is copied all the same; MLX: "Cannot import a CPU array without a copy".
COPIED = {("mlx", "to_device")}


def address(array):
    """Of the memory in which a framework on the CPU, or NumPy, has an array."""
    match type(array).__module__.partition(".")[0]:
        case "torch":
            return array.data_ptr()
        case "jax" | "jaxlib":
            return array.unsafe_buffer_pointer()
        case "tensorflow":
            return np.asarray(memoryview(array)).ctypes.data
        case "mlx":
            return np.from_dlpack(array).ctypes.data
        case _:
            return array.ctypes.data


def built(framework, case, variant):
    return CATALOG.implementation(framework, "transfer").variants[variant](open_device(framework), case, data("transfer", case)[0])


def checked(device, case, step, calls):
    """The check of the last of so many calls."""
    for _ in range(calls):
        outputs = step()
        device.wait(outputs)
    found = {name: np.array(device.get(array)) for name, array in outputs.items()}
    return CATALOG.workload("transfer").check(case, data("transfer", case)[0], [found], {})


@pytest.mark.skipif(bool(ACCELERATOR), reason="addresses are of the CPU's memory")
@pytest.mark.parametrize("variant", ["copy", "share"])
@pytest.mark.parametrize("case", [SENT, BROUGHT], ids=lambda case: case.direction)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_in_how_many_places_the_data_are_is_told_as_addresses_tell_it(framework, case, variant):
    step = built(framework, case, variant)
    out = step()["out"]
    sources = [step._host] if case is SENT else [source for source, _ in itertools.islice(step._turn, 2)]
    shared = address(out) in set(map(address, sources))
    assert step.figures == {"places": 1 if shared else 2}
    assert shared == (variant == "share" and (framework, case.direction) not in COPIED)


@pytest.mark.parametrize("variant", ["copy", "share"])
@pytest.mark.parametrize("case", [SENT, BROUGHT], ids=lambda case: case.direction)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_an_earlier_call_moved_is_not_taken_for_this_ones(framework, case, variant):
    device, step = open_device(framework), built(framework, case, variant)
    for calls in (1, 6, 1):
        assert checked(device, case, step, calls).ok
    move, kept = step._move, []
    step._move = lambda source: kept[0] if kept else kept.append(move(np.array(source) if case is SENT else source)) or kept[0]
    assert checked(device, case, step, 1).ok
    check = checked(device, case, step, 1)
    assert not check.ok
    assert check.error == 2.0**-16  # the stamp
    assert check.detail


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_output_on_the_host_is_taken_as_it_is(framework):
    device, array = open_device(framework), np.arange(3, dtype=np.float32)
    device.wait({"out": array, "other": device.put(array)})
    assert np.array_equal(device.get(array), array)


@pytest.mark.skipif(bool(ACCELERATOR), reason="it is how JAX treats the CPU's memory")
def test_jax_shares_what_it_is_asked_to_copy():
    """Were it mended, ``copy`` on the CPU would be device_put with may_alias=False."""
    open_device("jax")
    import jax

    host = built("jax", SENT, "share")._host
    assert jax.device_put(host, may_alias=False).unsafe_buffer_pointer() == host.ctypes.data


@pytest.mark.skipif(bool(ACCELERATOR), reason="there it is done")
@pytest.mark.parametrize("variant", ["copy", "share"])
def test_jax_brings_no_array_from_an_accelerator_that_it_may_have_brought_before(variant, monkeypatch):
    """Built here as for an accelerator, on which an array keeps what it brought to the host."""
    device = open_device("jax")
    from metalbench.backends.jax import transfer as adapter

    monkeypatch.setattr(device, "kind", "accelerator")
    step, read = built("jax", BROUGHT, variant), []
    monkeypatch.setattr(adapter, "np", SimpleNamespace(asarray=lambda array: read.append(array) or np.asarray(array)))
    assert checked(device, BROUGHT, step, 4).ok
    sources = [source for source, _ in itertools.islice(step._turn, 2)]
    assert len(set(map(id, [*sources, *read]))) == 6
    assert set(map(address, read)) == set(map(address, sources))
