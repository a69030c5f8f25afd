"""A decoder block: its reference against one written otherwise, and what its tolerance lets pass."""

import numpy as np
import pytest
from scipy.special import erf, softmax

from metalbench.workloads.base import rounded
from metalbench.workloads.transformer_block import WORKLOAD, TransformerBlockCase

DTYPES = ("float32", "float16", "bfloat16")
SMALL = {"batch": 2, "width": 64, "heads": 4, "kv_heads": 2, "hidden": 96}
PREFILL, CHUNK, DECODE = ({"queries": queries, "context": context} for queries, context in ((12, 0), (5, 24), (1, 36)))


def case_of(dtype="float32", **changes):
    return TransformerBlockCase(**({"dtype": dtype} | SMALL | changes))


def block(case, inputs, *, keep=lambda a: a, product=np.matmul, **wrong):
    """The block with complex numbers for the rotation and every key of every query head written out.

    ``keep`` rounds each tensor on the way, ``product`` multiplies matrices; ``wrong`` names what to do wrongly.
    """
    value = {name: array.astype(np.float64) for name, array in inputs.items()}
    x = value["x"]
    batch, new, width = x.shape
    size = width // case.heads

    def norm(h, scale):
        epsilon = 0 if "epsilon" in wrong else 1e-5
        return keep(h * (np.mean(h * h, -1, keepdims=True) + epsilon) ** -0.5 * value[scale])

    def linear(h, name):
        return keep(product(h, value[name].T))

    def split(h):
        return h.reshape(batch, new, -1, size).transpose(0, 2, 1, 3)

    def turn(heads):
        start = 0 if "positions" in wrong else case.context
        angles = np.outer(np.arange(start, start + new), [1 / 10000 ** (2 * i / size) for i in range(size // 2)])
        pairs = (slice(0, None, 2), slice(1, None, 2)) if "neighbours" in wrong else (slice(size // 2), slice(size // 2, None))
        angles = angles_in(wrong["angles"], start, new, size) if "angles" in wrong else angles
        numbers = (heads[..., pairs[0]] + 1j * heads[..., pairs[1]]) * np.exp(1j * angles)
        out = np.empty_like(heads)
        out[..., pairs[0]], out[..., pairs[1]] = numbers.real, numbers.imag
        return keep(out)

    normal = norm(x, "attention_norm")
    q, k, v = (split(linear(normal, name)) for name in "qkv")
    q, k = (q, k) if "unturned" in wrong else (turn(q), turn(k))
    k, v = (k, v * 0) if "unwritten" in wrong else (k, v)
    k, v = (np.concatenate((value[f"{name}_cache"][:, :, : case.context], fresh), 2) for name, fresh in (("k", k), ("v", v)))
    many = (1, case.heads // case.kv_heads, 1, 1)
    k, v = (np.tile(a, many) if "groups" in wrong else np.repeat(a, many[1], 1) for a in (k, v))
    scores = keep(product(q, k.transpose(0, 1, 3, 2))) * (1 if "scale" in wrong else size**-0.5)
    if "mask" not in wrong:
        scores = scores + np.triu(np.full((new, case.context + new), -np.inf), case.context + 1)
    attended = keep(product(keep(softmax(scores, -1)), v)).transpose(0, 2, 1, 3).reshape(x.shape)
    h = keep((0 if "residual" in wrong else x) + linear(attended, "o"))
    normal = norm(h, "mlp_norm")
    gate, up = linear(normal, "gate"), linear(normal, "up")
    gate, up = (up, gate) if "gate" in wrong else (gate, up)
    active = gate * (1 + erf(gate / 2**0.5)) / 2 if "gelu" in wrong else gate / (1 + np.exp(-gate))
    return keep(h + linear(keep(keep(active) * up), "down"))


def angles_in(dtype, start, new, size):
    frequencies = rounded(1 / np.float32(10000) ** (np.arange(0, size, 2, dtype=np.float32) / np.float32(size)), dtype)
    return rounded(np.outer(rounded(np.arange(start, start + new), dtype), frequencies), dtype)


def checked(case, **how):
    inputs = WORKLOAD.inputs(case, np.random.default_rng(0))
    return WORKLOAD.check(case, inputs, [{"out": block(case, inputs, **how).astype(np.float32)}], WORKLOAD.reference(case, inputs))


def summed_in(dtype):
    """A product whose every partial sum is rounded."""

    def product(a, b):
        total = np.zeros((*a.shape[:-1], b.shape[-1]))
        for i in range(a.shape[-1]):
            total = rounded(total + a[..., i, None] * b[..., None, i, :], dtype).astype(np.float64)
        return total

    return product


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("tokens", [PREFILL, CHUNK, DECODE])
def test_the_reference_agrees_with_a_block_written_otherwise(tokens, kv_heads):
    case = case_of(**tokens | {"kv_heads": kv_heads})
    inputs = WORKLOAD.inputs(case, np.random.default_rng(1))
    np.testing.assert_allclose(WORKLOAD.reference(case, inputs)["out"], block(case, inputs), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("wrong", "tokens"),
    [
        *(
            (wrong, tokens)
            for wrong in ("neighbours", "unturned", "groups", "scale", "residual", "gate", "gelu")
            for tokens in (PREFILL, CHUNK, DECODE)
        ),
        *(("mask", tokens) for tokens in (PREFILL, CHUNK)),
        *((wrong, tokens) for wrong in ("positions", "unwritten") for tokens in (CHUNK, DECODE)),
    ],
)
def test_a_block_that_does_one_thing_wrongly(wrong, tokens, dtype):
    """In 16 bit too, where the tolerance is widest."""
    assert not checked(case_of(dtype, **tokens), **{wrong: True}).ok


def test_a_norm_without_its_epsilon():
    assert not checked(case_of(**PREFILL), epsilon=True).ok


@pytest.mark.parametrize("tokens", [PREFILL, CHUNK, DECODE, {"queries": 1, "context": 700}])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_tensor_on_the_way_may_be_rounded_to_16_bit(dtype, tokens):
    """Each operator for itself with sums that are exact: what is tolerated is not many times that."""
    check = checked(case_of(dtype, **tokens), keep=lambda a: rounded(a, dtype).astype(np.float64))
    assert check.ok, check
    assert check.error > 0.15 * check.tolerance


@pytest.mark.parametrize("tokens", [PREFILL, DECODE])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_may_not_be_in_16_bit(dtype, tokens):
    case = case_of(dtype, **tokens | {"width": 256, "hidden": 704})
    assert not checked(case, keep=lambda a: rounded(a, dtype).astype(np.float64), product=summed_in(dtype)).ok


def test_float32_means_no_fewer_bits():
    """Factors with TF32's ten bits, rounded as float16 is, which holds every one of them."""
    case = case_of(**PREFILL)
    assert not checked(case, product=lambda a, b: np.matmul(rounded(a, "float16").astype(np.float64), rounded(b, "float16"))).ok


@pytest.mark.parametrize("context", [100, 8192])
def test_angles_may_be_in_float32_as_models_compute_them(context):
    check = checked(case_of(width=256, queries=1, context=context), angles="float32")
    assert check.ok, check


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_angles_may_not_be_in_16_bit(dtype):
    assert not checked(case_of(dtype, queries=1, context=1000), angles=dtype).ok


def test_work_is_counted_in_tokens_weights_and_pairs():
    case = case_of("bfloat16", **CHUNK)
    weights = 64 * (64 + 32 + 32 + 64) + 3 * 64 * 96
    pairs = sum(25 + query for query in range(5))
    cost = WORKLOAD.cost(case, "eager")
    assert cost.amounts == {"tokens": 10}
    assert cost.flops == 2 * 10 * weights + 2 * 4 * 16 * 4 * pairs
    inputs = WORKLOAD.inputs(case, np.random.default_rng(0))
    assert cost.bytes == 2 * (sum(array.size for array in inputs.values()) + inputs["x"].size)


def test_the_cache_holds_nothing_yet_where_the_new_tokens_belong():
    inputs = WORKLOAD.inputs(case_of(**CHUNK), np.random.default_rng(0))
    for cache in (inputs["k_cache"], inputs["v_cache"]):
        assert np.isfinite(cache[:, :, :24]).all()
        assert np.isnan(cache[:, :, 24:]).all()


def test_a_sample_of_tokens_is_computed_as_all_are(monkeypatch):
    case = case_of(**PREFILL)
    inputs = WORKLOAD.inputs(case, np.random.default_rng(0))
    whole = WORKLOAD.reference(case, inputs)["out"]
    monkeypatch.setattr("metalbench.workloads.transformer_block.FULL_REFERENCE", 0)
    sampled = WORKLOAD.reference(case, inputs)
    tokens = sampled["out.at"].reshape(2, -1, 64)[:, :, 0] // 64
    assert {0, 11, 12, 23} <= set(tokens.reshape(-1))  # the first and the last of both sequences
    assert tokens.size == 8
    np.testing.assert_allclose(sampled["out"], whole.reshape(-1)[sampled["out.at"]], rtol=1e-12)


@pytest.mark.parametrize(("suite", "width", "context"), [("standard", 2048, 1024), ("large", 4096, 8192)])
def test_prefill_and_decode_in_every_dtype(suite, width, context):
    cases = list(WORKLOAD.cases(suite))
    assert {(case.dtype, case.context) for case in cases} == {(dtype, before) for dtype in DTYPES for before in (0, context)}
    assert {case.width for case in cases} == {width}
    assert all((case.queries == 1) == (case.context > 0) for case in cases)
