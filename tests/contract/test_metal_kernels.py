"""The Metal kernels and their bindings, run on the CPU (emulated: right or wrong, never a time) against float64."""

import importlib
import itertools

import numpy as np
import pytest
from support import metal
from support.cases import CATALOG, DTYPES, data, open_device

from metalbench.workloads.base import normwise_error, reduction_tolerance, rounded
from metalbench.workloads.int4_matmul import Int4MatmulCase, dequantize, pack_bytes, quantize

EPS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
KIND = {"torch": "mps", "mlx": "metal"}


@pytest.fixture(params=sorted(KIND))
def framework(request, monkeypatch):
    """Its name; what it would compile for Metal is emulated, each kernel under a seed of its own."""
    metal.needs_compiler()
    open_device(request.param)
    seeds = itertools.count()
    if request.param == "torch":
        import torch

        monkeypatch.setattr(torch, "empty", filled(torch.empty))
        monkeypatch.setattr(torch, "empty_like", filled(torch.empty_like))
        monkeypatch.setattr(module("torch", "int4_matmul"), "DEVICE", "cpu")
        monkeypatch.setattr("torch.mps.compile_shader", lambda source: metal.TorchLibrary(source, next(seeds)))
    else:
        import mlx.core as mx

        real = mx.fast.metal_kernel

        def metal_kernel(**what):
            bound, emulated = real(**what), metal.MlxKernel(**what, seed=next(seeds))

            def run(**how):
                if not mx.metal.is_available():  # then MLX takes the arguments, so that their names are right, but nothing more
                    with pytest.raises(RuntimeError, match="No Metal back-end"):
                        bound(**how)
                return emulated(**how)

            return run

        monkeypatch.setattr(mx.fast, "metal_kernel", metal_kernel)
    forget()
    yield request.param
    forget()


def filled(make):
    """Memory that holds NaN, so that nothing right is left there by an earlier call."""
    return lambda *arguments, **how: make(*arguments, **how).fill_(float("nan"))


def module(framework, kernel):
    return importlib.import_module(f"metalbench.kernels.{kernel}.{framework}_metal")


def forget():
    """What the bindings compiled, for others compile otherwise."""
    for framework, kernel in itertools.product(KIND, ("softshrink", "int4_matmul")):
        try:
            own = module(framework, kernel)
        except ImportError:
            continue
        for name in ("compiled", "kernel"):
            if hasattr(own, name):
                getattr(own, name).cache_clear()


def softshrink(framework, x, dtype, threshold, offset=0):
    """Of float32 values that ``dtype`` has; x begins ``offset`` elements into its memory, where the framework lets it."""
    device = open_device(framework)
    x = device.put(np.concatenate([np.zeros(offset, np.float32), x.reshape(-1)]), dtype)[offset:].reshape(x.shape)
    y = module(framework, "softshrink").softshrink(x, threshold)
    assert y.dtype == x.dtype
    assert tuple(y.shape) == tuple(x.shape)
    return device.get(y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softshrink_of_any_length_and_alignment(framework, dtype):
    rng = np.random.default_rng(1)
    shapes = [(0,), (1,), (4,), (7,), (8,), (3, 5, 7), (1023,), (1024,), (1025,), (int(rng.integers(2000, 3000)),)]
    for offset, shape in enumerate(shapes):
        x = rounded(rng.standard_normal(shape).astype(np.float32), dtype)
        threshold = np.float32(rng.uniform(0, 1))
        exact = np.sign(x) * np.maximum(np.abs(x.astype(np.float64)) - threshold, 0)
        y = softshrink(framework, x, dtype, float(threshold), offset % 5)
        assert np.all(np.abs(y - exact) <= EPS[dtype] * np.abs(exact)), shape


@pytest.mark.parametrize("dtype", DTYPES)
def test_softshrink_of_special_values(framework, dtype):
    torch = pytest.importorskip("torch")
    tiny = {"float32": 1e-45, "float16": 6e-8, "bfloat16": 1e-40}[dtype]
    x = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, tiny, -tiny, 0.25, -0.25])
    expected = torch.nn.functional.softshrink(torch.tensor(x).to(getattr(torch, dtype)), 0.5).float().numpy()
    y = softshrink(framework, x, dtype, 0.5)
    assert np.isnan(y[0])
    assert np.array_equal(y[1:], expected[1:])
    assert np.array_equal(np.signbit(y[1:]), np.signbit(expected[1:]))


def product(int4_matmul, device, dtype, m, n, k, group, rng):
    """(error, tolerance) of a product of random matrices."""
    x = rounded(rng.standard_normal((m, k), dtype=np.float32), dtype)
    codes, scales, offsets = quantize(rng.standard_normal((n, k), dtype=np.float32) + 1, group)  # not even, so that offsets matter
    arrays = (device.put(x, dtype), device.put(pack_bytes(codes)), device.put(scales, dtype), device.put(offsets, dtype))
    out = device.get(int4_matmul(*arrays))
    reference = x.astype(np.float64) @ dequantize(codes, scales, offsets).T
    assert out.shape == reference.shape
    return normwise_error(out, {"out": reference}, "out"), reduction_tolerance(dtype, k)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", [32, 64, 128])
def test_int4_products_of_random_shapes(framework, dtype, group):
    """Every dtype and group with one row through one framework, and with several through the other: each compiles in a second."""
    rng = np.random.default_rng([group, DTYPES.index(dtype)])
    single = (group // 32 + DTYPES.index(dtype) + (framework == "mlx")) % 2
    m, n, k = 1 if single else int(rng.integers(2, 33)), int(rng.integers(2, 30)), group * int(rng.integers(1, 1 + 1536 // group))
    error, tolerance = product(module(framework, "int4_matmul").int4_matmul, open_device(framework), dtype, m, n, k, group, rng)
    assert error <= tolerance, (m, n, k)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 32), (8, 4, 512), (9, 5, 544), (32, 1, 64)])
def test_int4_products_at_the_edges(framework, m, n, k):
    own = module(framework, "int4_matmul").int4_matmul
    error, tolerance = product(own, open_device(framework), "float16", m, n, k, 32, np.random.default_rng(2))
    assert error <= tolerance


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_variant_on_metal_is_right(framework, dtype, monkeypatch):
    """What a Mac would do from the workload's inputs to its check, on a device that only says that it is Metal."""
    device, workload = open_device(framework), CATALOG.workload("int4_matmul")
    case = Int4MatmulCase(dtype=dtype, m=5, n=12, k=256, group=64)
    inputs, reference = data("int4_matmul", case)
    monkeypatch.setattr(device, "kind", KIND[framework])
    monkeypatch.setattr(device, "wait", lambda outputs: None)
    step = CATALOG.implementation(framework, "int4_matmul").variants["kernel"](device, case, inputs)
    out = {name: np.array(device.get(array)) for name, array in step().items()}
    check = workload.check(case, inputs, [out], reference)
    assert check.ok, check


#: Kernel, what stands in its source, and what a mistake would put there.
MISTAKES = [
    ("softshrink", "first + SHARE <= length", "first + SHARE <= length + 1"),
    ("softshrink", "i < length", "i <= length"),
    ("softshrink", "i < length", "i < length - 1"),
    ("softshrink", "wide + lambda", "wide - lambda"),
    ("int4_matmul", "threadgroup_barrier(mem_flags::mem_threadgroup);", ""),
    ("int4_matmul", "threadgroup_barrier(mem_flags::mem_threadgroup);", "simdgroup_barrier(mem_flags::mem_threadgroup);"),
    ("int4_matmul", "+ at / GROUP", "+ at / (2 * GROUP)"),
    ("int4_matmul", "+ at / GROUP", "+ (at + 8) / GROUP"),
    ("int4_matmul", "at < k", "at <= k"),
    ("int4_matmul", "at < k", "at < k - PIECE"),
    ("int4_matmul", "min(first_column + c, n - 1)", "first_column + c"),
    ("int4_matmul", "min(first_row + r, m - 1)", "first_row + r"),
    ("int4_matmul", "&& column < n", ""),
    ("int4_matmul", "&& row < m", ""),
    ("int4_matmul", "4 * (i % CODES_A_WORD)", "4 * (i % CODES_A_WORD ^ 1)"),
    ("int4_matmul", "if (lane == 0)", "if (lane == 1 && simdgroup == 1)"),
]


def holds(kernel, own, device):
    """Whether a kernel passes what shows every mistake on the list."""
    rng = np.random.default_rng(3)
    try:
        if kernel == "softshrink":
            return all(
                np.allclose(device.get(own.softshrink(device.put(x))), np.sign(x) * np.maximum(np.abs(x) - 0.5, 0), atol=1e-7)
                for x in (rng.standard_normal(length, dtype=np.float32) for length in (5, 7, 8))
            )
        error, tolerance = product(own.int4_matmul, device, "float32", 3, 38, 512 + 32, 32, rng)
    except metal.EmulationError:
        return False
    return error <= tolerance


@pytest.mark.parametrize("framework", ["torch"], indirect=True)
@pytest.mark.parametrize(
    ("kernel", "right", "wrong"), [("softshrink", "", ""), ("int4_matmul", "", ""), *MISTAKES], ids=lambda value: value or "none"
)
def test_a_planted_mistake_shows(framework, kernel, right, wrong, monkeypatch):
    own, device = module(framework, kernel), open_device(framework)
    assert not right or own.SOURCE.count(right) == 1
    monkeypatch.setattr(own, "SOURCE", own.SOURCE.replace(right, wrong) if right else own.SOURCE)
    assert holds(kernel, own, device) == (not right)


#: What a kernel does, and the words for it.
FAULTS = {
    "y[t] = x[t + 1];": "heap-buffer-overflow",
    "y[t] = x[int(t) - 1];": "heap-buffer-overflow",
    "y[t] = *(device const float*)((device const char*)x + 1);": "misaligned address",
    "threadgroup const float* p = x;  y[t] = p[0];": "threadgroup const float|const threadgroup float|threadgroup float const",
    "if (t < 8) threadgroup_barrier(mem_flags::mem_threadgroup);": "never come",
    "if (t < 8) y[t] = simd_sum(x[t]);\n  else y[t] = simd_max(x[t]);": "different SIMD operations",
}


@pytest.mark.parametrize("body", FAULTS)
def test_the_emulation_finds(body):
    metal.needs_compiler()
    with pytest.raises(metal.EmulationError, match=FAULTS[body]):
        emulated(body)


def emulated(body):
    """y [40] after a kernel of 40 threads t whose x is 0…39."""
    source = (
        "#include <metal_stdlib>\nusing namespace metal;\n"
        "kernel void f(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint t [[thread_position_in_grid]]) {\n"
        f"  {body}\n}}\n"
    )
    x = np.arange(40, dtype=np.float32)
    _, y = metal.run(source, "f", [(x.tobytes(), 0), (bytes(x.nbytes), 0)], 40, 40, 0)
    return np.frombuffer(y, np.float32)


def test_the_emulation_sums_what_a_simd_group_has():
    """32 lanes, and the 8 that are left."""
    metal.needs_compiler()
    y = emulated("y[t] = simd_sum(x[t]) + simd_max(x[t]) + simd_shuffle_xor(x[t], 1);")
    assert np.array_equal(y, [(496 + 31 if t < 32 else 284 + 39) + (t ^ 1) for t in range(40)])


def test_threads_meet_at_a_barrier_of_the_emulation():
    metal.needs_compiler()
    staged = "threadgroup float held[40];\n  held[39 - t] = x[t];\n  {}y[t] = held[t];"
    assert np.array_equal(emulated(staged.format("threadgroup_barrier(mem_flags::mem_threadgroup);\n  ")), np.arange(40)[::-1])
    assert np.isnan(emulated(staged.format(""))).any()
