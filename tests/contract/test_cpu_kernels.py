"""The C++ kernels on the CPU, in the frameworks that have them, against float64."""

import importlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.cases import DTYPES, open_device

from metalbench.backends.base import Unsupported
from metalbench.kernels import building
from metalbench.kernels.int4_matmul.columns import word_columns
from metalbench.workloads.base import EPS, normwise_error, reduction_tolerance, rounded
from metalbench.workloads.int4_matmul import dequantize, quantize

BOUND = ("torch", "jax", "mlx")
KERNELS = ("softshrink", "int4_matmul")


def module(framework, kernel):
    open_device(framework)
    return importlib.import_module(f"metalbench.kernels.{kernel}.{framework}_cpu")


def put(framework, x, dtype, offset=0):
    """x on the device; its memory begins ``offset`` elements into an allocation, where the framework lets it."""
    return open_device(framework).put(np.concatenate([np.zeros(offset, np.float32), x.reshape(-1)]), dtype)[offset:].reshape(x.shape)


def weights(n, k, group, seed):
    """(codes, scales, offsets) whose scales and offsets differ by group and column, and are exact in every dtype."""
    rng = np.random.default_rng(seed)
    return quantize(rng.standard_normal((n, k), dtype=np.float32) * rng.uniform(0.2, 5, (n, 1)).astype(np.float32) + 1, group)


def product_error(framework, dtype, m, n, k, group, seed=0, offset=0):
    """(error, tolerance) of a product with weights of random numbers."""
    x = rounded(np.random.default_rng([seed, m]).standard_normal((m, k), dtype=np.float32), dtype)
    codes, scales, offsets = weights(n, k, group, seed)
    x_there = put(framework, x, dtype, offset)
    out = module(framework, "int4_matmul").by_weights(dtype, codes, scales, offsets)(x_there)
    assert out.dtype == x_there.dtype
    reference = x.astype(np.float64) @ dequantize(codes, scales, offsets).T
    assert tuple(out.shape) == reference.shape
    return normwise_error(open_device(framework).get(out), {"out": reference}, "out"), reduction_tolerance(dtype, k)


@pytest.mark.parametrize("framework", BOUND)
@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    m=st.integers(1, 33),
    n=st.integers(1, 90),
    group=st.sampled_from([32, 64, 128]),
    groups=st.integers(1, 9),
    offset=st.integers(0, 3),
    seed=st.integers(0, 99),
)
@example(dtype="float32", m=1, n=4099, group=32, groups=20, offset=1, seed=0)  # enough for several threads, and a last part of its own
@example(dtype="bfloat16", m=9, n=1031, group=128, groups=5, offset=1, seed=0)
@example(dtype="float16", m=100, n=300, group=64, groups=3, offset=0, seed=0)
def test_products_of_any_shape(framework, dtype, m, n, group, groups, offset, seed):
    error, tolerance = product_error(framework, dtype, m, n, group * groups, group, seed, offset)
    assert error <= tolerance


@pytest.mark.parametrize("framework", BOUND)
@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    length=st.integers(0, 200),
    offset=st.integers(0, 17),
    threshold=st.floats(0, 2, width=32),
    seed=st.integers(0, 99),
)
@example(dtype="float32", length=200_003, offset=1, threshold=0.5, seed=0)
@example(dtype="float16", length=100_001, offset=3, threshold=0.25, seed=0)
@example(dtype="bfloat16", length=70_007, offset=5, threshold=0.0, seed=0)
def test_softshrink_of_any_length_and_alignment(framework, dtype, length, offset, threshold, seed):
    x = rounded(np.random.default_rng(seed).standard_normal(length, dtype=np.float32), dtype)
    x[:1] = np.nan
    wide = x.astype(np.float64)
    exact = np.where(wide > threshold, wide - threshold, np.where(wide < -threshold, wide + threshold, 0 * wide))
    x_there = put(framework, x, dtype, offset)
    y = module(framework, "softshrink").softshrink(x_there, threshold)
    assert y.dtype == x_there.dtype
    least = 2**-25 if dtype == "float16" else 2**-126  # XLA's threads flush what is subnormal in float32
    assert np.allclose(open_device(framework).get(y), exact, rtol=EPS[dtype], atol=least, equal_nan=True)


@pytest.mark.parametrize("framework", BOUND)
@pytest.mark.parametrize("dtype", DTYPES)
def test_softshrink_of_special_values(framework, dtype):
    torch = pytest.importorskip("torch")
    x = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 0.25, -0.25, 65504 if dtype == "float16" else 3e38] * 5)
    expected = torch.nn.functional.softshrink(torch.tensor(x).to(getattr(torch, dtype)), 0.5).float().numpy()
    y = open_device(framework).get(module(framework, "softshrink").softshrink(put(framework, x, dtype), 0.5))
    assert np.array_equal(y, expected, equal_nan=True)


def test_every_number_of_16_bits_is_widened_and_narrowed_as_pytorch_does():
    """Shrunk by 0, and by a number that makes a difference of every size to be rounded."""
    torch = pytest.importorskip("torch")
    own = module("torch", "softshrink").softshrink
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(dtype)
        for threshold in (0.0, 0.3333, 2**-8, 2**-11):  # the last two make what lies half-way between two numbers
            wide, least = x.float(), np.float32(threshold)
            exact = torch.where(wide > least, wide - least, torch.where(wide < -least, wide + least, 0 * wide)).to(dtype)
            assert torch.equal(own(x, threshold).float().nan_to_num(nan=7), exact.float().nan_to_num(nan=7))


def test_nothing_is_written_beyond_an_output(monkeypatch):
    torch = pytest.importorskip("torch")
    real, guards = torch.empty, []

    def guarded(*shape, dtype):
        """Memory with a margin on both sides."""
        whole = real(64 + np.prod(shape, dtype=int), dtype=dtype).fill_(7)
        guards.extend((whole[:32], whole[-32:]))
        return whole[32:-32].view(*shape)

    softshrink, by_weights = module("torch", "softshrink").softshrink, module("torch", "int4_matmul").by_weights
    monkeypatch.setattr(torch, "empty", lambda shape, dtype: guarded(*shape, dtype=dtype))
    monkeypatch.setattr(torch, "empty_like", lambda x: guarded(*x.shape, dtype=x.dtype))
    for dtype in DTYPES:
        for length in range(40):
            softshrink(torch.ones(length, dtype=getattr(torch, dtype)), 0.5)
        for m, n in ((1, 1), (1, 15), (2, 17), (9, 33)):
            by_weights(dtype, *weights(n, 32, 32, 0))(torch.ones((m, 32), dtype=getattr(torch, dtype)))
    assert len(guards) == 2 * 3 * (40 + 4)
    assert all((guard == 7).all() for guard in guards)


def test_words_hold_eight_codes_of_a_column_beside_its_neighbours():
    codes = np.random.default_rng(0).integers(0, 16, (11, 24)).astype(np.uint8)
    words = word_columns(codes, 8)
    assert words.shape == (2, 3, 8)
    for column, at in ((0, 0), (7, 9), (10, 23)):
        assert int(words[column // 8, at // 8, column % 8]) >> (4 * (at % 8)) & 15 == codes[column, at]
    assert not words[1, :, 3:].any()


@pytest.mark.parametrize("framework", BOUND)
def test_calls_from_many_threads_at_once_are_right(framework):
    """Then each waits for threads of a pool that others keep busy."""
    device = open_device(framework)
    codes, scales, offsets = weights(1000, 512, 64, 0)
    product = module(framework, "int4_matmul").by_weights("float32", codes, scales, offsets)
    x = np.random.default_rng(1).standard_normal((8, 2, 512), dtype=np.float32)
    reference = x.astype(np.float64) @ dequantize(codes, scales, offsets).T

    def error(i):
        return max(normwise_error(device.get(product(device.put(x[i], "float32"))), {"out": reference[i]}, "out") for _ in range(10))

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(error, range(8))) <= reduction_tolerance("float32", 512)


def test_products_side_by_side_in_one_compiled_function_of_jax_are_right():
    """XLA may run them on the threads of the pool that each of them shares its work out to."""
    device = open_device("jax")
    import jax

    products = [module("jax", "int4_matmul").by_weights("float32", *weights(1000, 512, 64, seed)) for seed in range(12)]
    x = np.random.default_rng(1).standard_normal((4, 512), dtype=np.float32)
    found = jax.jit(lambda x: [product(x) for product in products])(device.put(x, "float32"))
    for seed, out in enumerate(found):
        reference = x.astype(np.float64) @ dequantize(*weights(1000, 512, 64, seed)).T
        assert normwise_error(device.get(out), {"out": reference}, "out") <= reduction_tolerance("float32", 512)


def test_the_work_is_done_by_as_many_threads_as_pytorch_is_told():
    torch = pytest.importorskip("torch")
    product = module("torch", "int4_matmul").by_weights("float32", *weights(2000, 512, 64, 0))
    x, threads = torch.randn(3, 512), torch.get_num_threads()
    shared = product(x)
    torch.set_num_threads(1)
    try:
        assert torch.equal(product(x), shared)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("framework", BOUND)
@pytest.mark.parametrize("kernel", KERNELS)
def test_without_a_compiler_a_kernel_is_unsupported(framework, kernel, tmp_path, monkeypatch):
    own, x = module(framework, kernel), put(framework, np.ones(3, np.float32), "float32")
    monkeypatch.setenv("PATH", str(tmp_path))
    building.library.cache_clear()
    for made in ("compiled", "registered"):
        if hasattr(own, made):
            getattr(own, made).cache_clear()
    with pytest.raises(Unsupported, match=r"needs the compiler c\+\+, which is not on the PATH"):
        own.softshrink(x) if kernel == "softshrink" else own.by_weights("float32", *weights(8, 64, 32, 0))


def test_where_pytorch_lends_no_threads_a_kernel_is_unsupported(monkeypatch):
    module("torch", "softshrink")
    from metalbench.kernels import torch_threads

    torch_threads.parallel_for.cache_clear()
    monkeypatch.setattr(torch_threads.ctypes, "CDLL", lambda path: object())
    with pytest.raises(Unsupported, match=r"torch_parallel_for came with 2\.10"):
        torch_threads.parallel_for()


def test_mlx_wants_the_nanobind_that_it_was_built_with(monkeypatch):
    open_device("mlx")
    from metalbench.kernels import mlx_extension

    source = building.Path(importlib.import_module("metalbench.kernels.softshrink.mlx_cpu").__file__).with_name("softshrink.cpp")
    monkeypatch.setattr(mlx_extension, "built", lambda *what: "unused.so")
    monkeypatch.setattr(mlx_extension.ExtensionFileLoader, "create_module", lambda self, spec: None)
    monkeypatch.setattr(mlx_extension.ExtensionFileLoader, "exec_module", lambda self, made: setattr(made, "knows", lambda array: False))
    with pytest.raises(Unsupported, match=r"nanobind .* is not of the release that MLX .* was built with"):
        mlx_extension.extension(source, "")
    monkeypatch.setattr(mlx_extension.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unsupported, match="nanobind, which is not installed"):
        mlx_extension.extension(source, "")


def test_a_change_in_what_kernels_share_builds_them_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("METALBENCH_COMPILE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "three").mkdir()
    source, shared = tmp_path / "three" / "three.cpp", tmp_path / "shared.h"
    source.write_text('#include "../shared.h"\nextern "C" int three() { return THREE; }\n')
    monkeypatch.setattr(building, "__file__", str(tmp_path / "building.py"))
    for value in (3, 4):
        shared.write_text(f"#define THREE {value}\n")
        building.library.cache_clear()
        assert building.library(source, "", building.CPU).three() == value
