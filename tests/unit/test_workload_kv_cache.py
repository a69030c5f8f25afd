"""Decoding: its reference against one that goes token by token, and what its tolerance lets pass."""

import math

import numpy as np
import pytest
from scipy.special import softmax

from metalbench.workloads.base import rounded
from metalbench.workloads.kv_cache import WORKLOAD, KvCacheCase, require_room

SMALL = {"batch": 2, "heads": 4, "kv_heads": 2, "head_size": 16, "tokens": 24, "capacity": 32}


def case_of(dtype="float32", **changes):
    return KvCacheCase(**({"dtype": dtype} | SMALL | changes))


def decode(case, inputs, *, keep=lambda a: a, wrong=""):
    """[batch, tokens, width], every sequence, token and head for itself. ``keep`` rounds, as a framework would; ``wrong``: what is."""
    x, wq, wk, wv, wo = (inputs[name].astype(np.float64) for name in ("x", "wq", "wk", "wv", "wo"))
    size, group = case.head_size, case.heads // case.kv_heads
    out = np.empty(x.shape)
    for sequence in range(case.batch):
        keys, values = [], []
        for position in range(case.tokens):
            at = 0 if wrong == "row" and position == case.tokens - 1 else position
            q, k, v = (keep(x[sequence, at] @ weight).reshape(-1, size) for weight in (wq, wk, wv))
            keys.append(k)
            values.append(v)
            if wrong == "clamped" and position == case.tokens - 1:  # there was room for one token less
                keys, values = [*keys[:-2], k], [*values[:-2], v]
            seen = slice(0, position or 1) if wrong == "late" else slice(1, None) if wrong == "first" and position else slice(None)
            found = []
            for head in range(case.heads):
                of = head % case.kv_heads if wrong == "groups" else head // group
                scores = keep(np.array([q[head] @ key[of] for key in keys[seen]]) / (1 if wrong == "scale" else math.sqrt(size)))
                found.append(keep(keep(softmax(scores)) @ np.array([value[of] for value in values[seen]])))
            out[sequence, position] = keep(np.concatenate(found) @ wo)
    return out


def judged(case, **changes):
    inputs = WORKLOAD.inputs(case, np.random.default_rng(0))
    return WORKLOAD.check(case, inputs, [{"out": decode(case, inputs, **changes)}], WORKLOAD.reference(case, inputs))


@pytest.mark.parametrize("changes", [{}, {"kv_heads": 4}, {"kv_heads": 1, "head_size": 8}, {"batch": 1, "tokens": 1}])
def test_all_tokens_at_once_are_each_for_itself(changes):
    case = case_of(**changes)
    inputs = WORKLOAD.inputs(case, np.random.default_rng(3))
    np.testing.assert_allclose(WORKLOAD.reference(case, inputs)["out"], decode(case, inputs), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("wrong", ["late", "first", "groups", "scale", "clamped", "row"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_decoding_that_goes_wrong_is_found(dtype, wrong):
    """A token that doesn't see itself, or not the first one; mixed up groups; no scale; the last one written over the one before."""
    check = judged(case_of(dtype), wrong=wrong)
    assert not check.ok
    assert check.detail.startswith("token ")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounding_on_the_way_passes_where_it_is_declared_and_nowhere_else(dtype):
    def keep(array):
        return rounded(array, dtype).astype(np.float64)

    inputs = WORKLOAD.inputs(case_of(dtype), np.random.default_rng(0))
    out, exact = {"out": decode(case_of(dtype), inputs, keep=keep)}, WORKLOAD.reference(case_of(dtype), inputs)
    check = WORKLOAD.check(case_of(dtype), inputs, [out], exact)
    assert check.ok, check
    assert check.error > check.tolerance / 20  # a tolerance that lets all pass would be none
    assert not WORKLOAD.check(case_of(), inputs, [out], exact).ok


def test_one_token_can_not_hide_among_the_others():
    """In the norm of all it would: it is a mean of many values, and they are near 0."""
    case = case_of("bfloat16", tokens=256, capacity=256, batch=1, kv_heads=4)
    inputs = WORKLOAD.inputs(case, np.random.default_rng(0))
    reference = WORKLOAD.reference(case, inputs)
    out = reference["out"].copy()
    out[:, 255] *= 1.1
    assert np.linalg.norm(out - reference["out"]) / np.linalg.norm(out) < WORKLOAD.tolerance(case) / 5
    check = WORKLOAD.check(case, inputs, [{"out": out}], reference)
    assert not check.ok
    assert "token 255 is off by 0.1" in check.detail


def test_outputs_of_another_shape_are_refused():
    case = case_of()
    inputs = WORKLOAD.inputs(case, np.random.default_rng(0))
    reference = WORKLOAD.reference(case, inputs)
    for out in (reference["out"][:, :-1], reference["out"].swapaxes(0, 1), np.repeat(reference["out"], 2, axis=1)):
        check = WORKLOAD.check(case, inputs, [{"out": out}], reference)
        assert not check.ok
        assert "(2, 24, 64)" in check.detail


def test_a_position_past_the_end_is_named():
    require_room(7, 8)
    with pytest.raises(IndexError, match="position 8 is past the end of a KV cache preallocated for 8 tokens"):
        require_room(8, 8)


def test_its_price_is_that_of_decoding_with_a_cache():
    case = case_of(tokens=5, capacity=8)
    width, kv_width, tokens = 64, 32, 2 * 5
    products = 2 * tokens * (2 * width * width + 2 * width * kv_width)
    attention = sum(2 * 2 * 4 * 16 * (position + 1) for position in range(5)) * 2
    inputs = WORKLOAD.inputs(case, np.random.default_rng(0))
    costs = {variant: WORKLOAD.cost(case, variant) for variant in WORKLOAD.variants}
    for cost in costs.values():
        assert cost.flops == products + attention
        assert cost.bytes == sum(array.nbytes for array in inputs.values()) + inputs["x"].nbytes
        assert cost.amounts == {"tokens": tokens}
    cache = 2 * 2 * 2 * 16 * 4  # bytes a position: keys and values of two sequences and two heads
    assert costs["in_place"].footprint == 2 * costs["in_place"].bytes + 8 * cache
    assert costs["concatenate"].footprint == costs["recompute"].footprint == 2 * costs["in_place"].bytes + 2 * 5 * cache


@pytest.mark.parametrize("suite", ["standard", "large", "documents"])
def test_only_the_number_of_tokens_grows_and_by_a_factor_of_four(suite):
    lengths = [case for case in WORKLOAD.cases(suite) if case.dtype == "float32"]
    tokens = [case.tokens for case in lengths]
    assert tokens == [tokens[0], 2 * tokens[0], 4 * tokens[0]]
    assert len({tuple(value for name, value in case.parameters().items() if name != "tokens") for case in lengths}) == 1
    assert all(case.tokens <= case.capacity for case in WORKLOAD.cases(suite))
