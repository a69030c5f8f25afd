"""A call of next to nothing has to be made all the same."""

import numpy as np
from support.cases import CATALOG, dispatch


def test_an_empty_call_gives_another_shape_and_a_tiny_one_a_sum():
    workload = CATALOG.workload("dispatch")
    for kind, right, wrong in (
        ("empty", lambda x: x[:, 0], lambda x: x),  # handed on untouched
        ("tiny", lambda x, y: x + y, lambda x, y: (x.astype(np.float16) + y.astype(np.float16)).astype(np.float32)),
    ):
        inputs = workload.inputs(dispatch(kind), np.random.default_rng(0))
        reference = workload.reference(dispatch(kind), inputs)
        assert workload.check(dispatch(kind), inputs, [{"out": right(*inputs.values())}], reference).ok
        assert not workload.check(dispatch(kind), inputs, [{"out": wrong(*inputs.values())}], reference).ok
