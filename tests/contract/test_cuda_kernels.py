"""What of the CUDA kernels needs no GPU: how weights lie, how kernels are built, what JAX hands them, and Pallas interpreted."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.cases import DTYPES, open_device
from support.metal import COMPILER as CLANG
from support.metal import needs_compiler

from metalbench.backends.base import Unsupported
from metalbench.kernels.building import CPU, library
from metalbench.kernels.int4_matmul.cuda import starter
from metalbench.kernels.int4_matmul.tensor_cores import TILE_K, TILE_ROWS, blocks, template, tiled_codes, tiled_parameters
from metalbench.kernels.softshrink import blocks as blocks_module
from metalbench.kernels.softshrink.blocks import THREADS
from metalbench.kernels.softshrink.blocks import blocks as blocks_of_softshrink
from metalbench.workloads.base import EPS, rounded

CUDA_SHIM = Path(__file__).parent.parent / "cuda_shim"
ADD = 'extern "C" int add(int a, int b) { return a + b + EXTRA; }\n'
COMPILER = ("c++", "-shared", "-fPIC")


def fragments(packed):
    """The matrix that mma.m16n8k16 multiplies, from a lane's words as PTX lays its fragments out (PTX ISA, matrix fragments of .m16n8k16).

    Register a_i of the lane (g, t) holds row g + 8·(i mod 2), and columns 2t and 2t + 1, of which those of a_2 and a_3 are 8 further. The
    activations are loaded in another order: columns 2t, 2t + 1, 2t + 8, 2t + 9 of step s of a half are the lane's 4s to 4s + 3 of 8.
    """
    rows, tiles = packed.shape[:2]
    out = np.full((rows * TILE_ROWS, tiles * TILE_K), 255, np.uint8)
    for row, tile, lane, word in np.ndindex(packed.shape):
        g, t, (half, step) = lane // 4, lane % 4, divmod(word, 2)
        for register in range(4):
            pair = int(packed[row, tile, lane, word]) >> (4 * register) & 0x000F000F
            for odd in range(2):
                column = tile * TILE_K + half * 32 + t * 8 + step * 4 + register // 2 * 2 + odd
                out[row * TILE_ROWS + g + 8 * (register % 2), column] = pair >> (16 * odd) & 15
    return out


@given(n=st.integers(1, 40), groups=st.integers(1, 5), seed=st.integers(0, 99))
def test_codes_lie_as_the_tensor_cores_take_them(n, groups, seed):
    codes = np.random.default_rng(seed).integers(0, 16, (n, 32 * groups)).astype(np.uint8)
    found = fragments(tiled_codes(codes))
    assert np.array_equal(found[:n, : codes.shape[1]], codes)
    assert not found[n:].any()
    assert not found[:, codes.shape[1] :].any()


@pytest.mark.parametrize("group", [32, 64, 128])
def test_scales_and_offsets_of_a_tile_lie_together(group):
    rng = np.random.default_rng(0)
    scales, offsets = rng.random((37, 3), dtype=np.float32), rng.random((37, 3), dtype=np.float32)
    tiled = tiled_parameters(scales, offsets, group)
    for row, column in ((0, 0), (15, 2), (16, 1), (36, 2)):
        assert tuple(tiled[row // 16, column, row % 16]) == (scales[row, column], offsets[row, column])
    assert tiled.shape[1] * group % TILE_K == 0
    assert not tiled[2, :, 5:].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 3, 8, 16, 32, 100])
def test_the_grid_covers_every_row_of_the_activations(dtype, rows):
    columns = template(dtype, 64, rows)[2] * 8
    across, down = blocks(dtype, rows, 1000)
    assert across * 16 >= 1000
    assert down * (columns // {"float32": 3}.get(dtype, 1)) >= rows


def test_a_library_is_built_once_and_anew_when_its_source_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("METALBENCH_COMPILE_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "add.cpp"
    source.write_text(ADD.replace("EXTRA", "0"))
    assert library(source, "// one", COMPILER).add(1, 2) == 3
    (built,) = (tmp_path / "cache" / "kernels").glob("*.so")
    before = built.stat().st_mtime_ns
    library.cache_clear()
    library(source, "// one", COMPILER)
    assert built.stat().st_mtime_ns == before
    source.write_text(ADD.replace("EXTRA", "10"))
    library.cache_clear()
    assert library(source, "// one", COMPILER).add(1, 2) == 13
    assert len(list((tmp_path / "cache" / "kernels").iterdir())) == 2


def test_without_its_compiler_a_kernel_is_unsupported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match=r"int4_matmul\.cu needs the compiler nvcc, which is not on the PATH"):
        starter("bfloat16", 128, 1)


def test_what_the_compiler_refuses_is_told_in_its_words(tmp_path, monkeypatch):
    monkeypatch.setenv("METALBENCH_COMPILE_CACHE", str(tmp_path))
    (tmp_path / "add.cpp").write_text("int add(")
    with pytest.raises(RuntimeError, match=r"(?s)c\+\+ refuses add.*error"):
        library(tmp_path / "add.cpp", "", COMPILER)
    assert not list((tmp_path / "kernels").iterdir())


def lowered(function, *arguments):
    """What XLA would be given to compile for CUDA."""
    import jax

    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


#: Bound for the CPU too, where XLA has no stream; and in place of a kernel, a function that writes down what it is started with.
STARTED = """
static ffi::Error without_stream(int64_t start, ffi::AnyBuffer x, ffi::AnyBuffer codes, ffi::AnyBuffer parameters,
                                 ffi::Result<ffi::AnyBuffer> out) {
  return call(nullptr, start, x, codes, parameters, out);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(on_cpu, without_stream, ffi::Ffi::Bind().Attr<int64_t>("start").ARRAY.ARRAY.ARRAY.Ret<ffi::AnyBuffer>());
extern "C" int noting(const void* x, const void* codes, const void* parameters, void* out, int m, int n, int k, Stream) {
  const float noted[] = {*static_cast<const float*>(x), float(*static_cast<const uint32_t*>(codes)), *static_cast<const float*>(parameters),
                         float(m), float(n), float(k)};
  for (int i = 0; i < m * n; ++i) static_cast<float*>(out)[i] = noted[i % 6];
  return 0;
}
extern "C" int refusing(const void*, const void*, const void*, void*, int, int, int, Stream) { return 719; }
"""


@pytest.fixture(scope="module")
def jax_call():
    """(the library, (x, codes, parameters, columns, the name of a function in it) → what comes of it in JAX on the CPU)."""
    open_device("jax")
    import jax

    from metalbench.kernels.int4_matmul import jax_cuda

    own = library(jax_cuda.CALLED, STARTED, CPU, (jax.ffi.include_dir(),))
    jax.ffi.register_ffi_target("test_int4_matmul_cuda", jax.ffi.pycapsule(own.on_cpu), platform="cpu")

    def call(x, codes, parameters, columns, name):
        start = np.int64(ctypes.cast(own[name], ctypes.c_void_p).value)
        shape = jax.ShapeDtypeStruct((x.shape[0], columns), x.dtype)
        return np.asarray(
            jax.jit(lambda *arrays: jax.ffi.ffi_call("test_int4_matmul_cuda", shape)(*arrays, start=start))(x, codes, parameters)
        )

    return own, call


def test_xla_starts_a_kernel_by_its_address(jax_call):
    x, codes, parameters = np.full((2, 96), 2.5, np.float32), np.full((1, 2, 32, 4), 7, np.uint32), np.full((1, 3, 16, 2), -1.5, np.float32)
    assert jax_call[1](x, codes, parameters, 3, "noting").reshape(-1).tolist() == [2.5, 7, -1.5, 2, 3, 96]


def test_a_kernel_that_does_not_start_is_an_error_in_jax(jax_call):
    x, codes, parameters = np.zeros((1, 64), np.float32), np.zeros((1, 1, 32, 4), np.uint32), np.zeros((1, 2, 16, 2), np.float32)
    with pytest.raises(Exception, match="CUDA did not start the kernel: error 719"):
        jax_call[1](x, codes, parameters, 4, "refusing")


def test_what_jax_calls_is_the_same_for_every_type_group_and_number_of_rows(jax_call, monkeypatch):
    import jax.numpy as jnp

    from metalbench.kernels.int4_matmul import jax_cuda

    asked = []
    monkeypatch.setattr(jax_cuda, "library", lambda *arguments: jax_call[0])
    monkeypatch.setattr(jax_cuda, "starter", lambda *arguments: asked.append(arguments) or jax_call[0].noting)
    for dtype in DTYPES:
        for group in (32, 128):
            product = jax_cuda.by_weights(dtype, np.zeros((40, 256), np.uint8), *np.ones((2, 40, 256 // group), np.float32))
            for rows in (1, 16):
                text = lowered(product, jnp.zeros((rows, 256), dtype))
                assert f"custom_call @{jax_cuda.NAME}(" in text
                assert f"start = {ctypes.cast(jax_call[0].noting, ctypes.c_void_p).value} : i64" in text
    assert asked == [(dtype, group, rows) for dtype in DTYPES for group in (32, 128) for rows in (1, 16)]


def pallas_softshrink():
    """JAX's kernel; the test is skipped where this JAX's Pallas is too old for it."""
    open_device("jax")
    try:
        from metalbench.kernels.softshrink.jax_cuda import softshrink
    except Unsupported as error:
        pytest.skip(str(error))
    return softshrink


@pytest.mark.parametrize("dtype", DTYPES)
def test_pallas_is_compiled_by_triton_on_cuda(dtype):
    softshrink = pallas_softshrink()
    import jax.numpy as jnp

    assert "xla.gpu.triton" in lowered(softshrink, jnp.zeros(5000, dtype))


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 127, 128 * 16, 128 * 16 + 1, 1 << 28, (1 << 33) + 5])
def test_blocks_of_softshrink_cover_every_element_and_none_is_idle(length, size):
    assert (blocks_of_softshrink(length, size) - 1) * 128 * 16 < length * size <= blocks_of_softshrink(length, size) * 128 * 16


@pytest.fixture(scope="module")
def emulated():
    """The functions of tests/cuda_shim/softshrink.cpp: CUDA's source, compiled for the CPU."""
    needs_compiler()
    compiler = (CLANG, "-std=c++17", "-O1", "-fno-strict-aliasing", "-fPIC", "-shared", "--rtlib=compiler-rt")
    return library(CUDA_SHIM / "softshrink.cpp", "", compiler, (str(CUDA_SHIM), str(Path(blocks_module.__file__).parent)))


@settings(deadline=None)
@given(dtype=st.sampled_from(DTYPES), length=st.integers(1, 5000), x_at=st.integers(0, 9), y_at=st.integers(0, 9), seed=st.integers(0, 99))
@example(dtype="float16", length=4096, x_at=0, y_at=0, seed=0)  # two whole blocks, both aligned
@example(dtype="float32", length=4095, x_at=0, y_at=1, seed=0)
def test_cuda_shrinks_softly_at_any_alignment_and_writes_nothing_beside_it(emulated, dtype, length, x_at, y_at, seed):
    torch, own = pytest.importorskip("torch"), getattr(pytest.importorskip("torch"), dtype)
    x = torch.randn(length + x_at, generator=torch.Generator().manual_seed(seed)).to(own)[x_at:]
    x[::97] = torch.nan
    y = torch.full((length + 32,), 7.0, dtype=own)
    at = y[y_at:]
    grid = (blocks_of_softshrink(length, x.itemsize), THREADS)
    emulated[f"of_{dtype}"](*map(ctypes.c_void_p, (x.data_ptr(), at.data_ptr())), ctypes.c_longlong(length), ctypes.c_float(0.5), *grid)
    wide = x.double().numpy()
    exact = np.where(wide > 0.5, wide - 0.5, np.where(wide < -0.5, wide + 0.5, 0 * wide))
    assert np.allclose(at[:length].double().numpy(), exact, rtol=EPS[dtype], atol=0, equal_nan=True)
    assert (y[:y_at] == 7).all()
    assert (at[length:] == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [0, 1, 2047, 2048, 5000])
def test_pallas_shrinks_softly(dtype, length):
    device, softshrink = open_device("jax"), pallas_softshrink()
    x = rounded(np.random.default_rng(length).standard_normal(length, dtype=np.float32), dtype)
    x[length // 2 : length // 2 + 1] = np.nan
    exact = np.where(np.abs(x) > 0.5, x.astype(np.float64) - 0.5 * np.sign(x), 0 * x.astype(np.float64))
    found = device.get(softshrink(device.put(x, dtype), 0.5, interpret=True))
    assert np.allclose(found, exact, rtol=EPS[dtype], atol=0, equal_nan=True)
