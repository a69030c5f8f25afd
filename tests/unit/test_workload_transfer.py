"""Steps and check of a transfer, on a device that is NumPy."""

import numpy as np
import pytest
from support.cases import CATALOG, transfer

from metalbench.workloads.base import rounded
from metalbench.workloads.transfer import PAGE, Receiving, Sending, paged

WORKLOAD, SIZE = CATALOG.workload("transfer"), 1000
X = WORKLOAD.inputs(transfer("to_device", SIZE), np.random.default_rng(0))["x"]


class Host:
    put = get = staticmethod(np.array)

    def wait(self, outputs):
        pass


def check(*outputs):
    return WORKLOAD.check(transfer("to_device", SIZE), {"x": X}, outputs, {})


@pytest.mark.parametrize("kind", [Sending, Receiving])
def test_every_call_moves_other_data(kind):
    step = kind(Host(), X, np.array)
    outputs = [step() for _ in range(3)]
    assert all(np.array_equal(out["out"][1:], X[1:]) for out in outputs)
    assert outputs[0]["out"][0] != outputs[1]["out"][0] != outputs[2]["out"][0]
    assert check(outputs[2]).ok


@pytest.mark.parametrize("kind", [Sending, Receiving])
def test_shared_memory_is_told_from_a_copy(kind):
    assert kind(Host(), X, np.array).figures == {"places": 2}
    assert kind(Host(), X, np.asarray).figures == {"places": 1}
    assert kind(Host(), X, lambda array: array[:]).figures == {"places": 1}


def test_to_find_that_out_leaves_the_source_as_it_was():
    step = Sending(Host(), X, np.asarray)
    assert check({"out": step()["out"], "stamp": step()["stamp"]}).ok


def in_float16(array):
    return rounded(array, "float16")


def without_its_end(array):
    return array[:-1]


def with_its_end_missing(array):
    return np.append(array[:-1], np.float32(0))


def one_bit_off(array):
    return (array.view(np.uint32) ^ (np.arange(array.size) == 500)).astype(np.uint32).view(np.float32)


def in_float64(array):
    return array.astype(np.float64)


@pytest.mark.parametrize("fault", [in_float16, without_its_end, with_its_end_missing, one_bit_off, in_float64])
@pytest.mark.parametrize("kind", [Sending, Receiving])
def test_what_is_lost_on_the_way_is_found(kind, fault):
    found = check(kind(Host(), X, lambda array: fault(np.array(array)))())
    assert not found.ok
    assert "not those that the source held" in found.detail


def test_one_wrong_call_of_two_is_enough():
    right, wrong = ({"out": np.append(np.float32(stamp), X[1:]), "stamp": np.ones(1, np.float32)} for stamp in (1, 2))
    assert check(right).ok
    assert not check(right, wrong).ok
    assert not check(wrong, right).ok


def test_the_hosts_array_begins_at_a_page():
    for size in (1, 1000, PAGE):
        copy = paged(X[:size])
        assert copy.ctypes.data % PAGE == 0
        assert np.array_equal(copy, X[:size])


def test_bytes_are_those_that_change_sides():
    case = transfer("to_host", 1 << 22)
    assert WORKLOAD.cost(case, "copy").bytes == 16 << 20
    assert WORKLOAD.cost(case, "share").bytes == 0
    assert case.label() == "16 MiB to host"


def test_sizes_reach_from_4_kib_to_256_mib():
    labels = [case.label() for case in WORKLOAD.cases("standard")]
    assert labels[:5] == ["4 KiB to device", "64 KiB to device", "1 MiB to device", "16 MiB to device", "256 MiB to device"]
    assert list(WORKLOAD.cases("quick")) == []
